// Products of small float32 matrices whose sides are padded to multiples of LANES or TILE.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kernels {

// LANES: numbers per register. TILE: rows of a result that are computed together, in registers.
#if defined(__AVX512F__)
constexpr int64_t LANES = 16, TILE = 8;
#elif defined(__AVX__)
constexpr int64_t LANES = 8, TILE = 4;
#else
constexpr int64_t LANES = 4, TILE = 4;
#endif

// One register: GCC keeps longer vectors in memory, which made attention 9 times as slow.
typedef float Lanes __attribute__((vector_size(LANES * sizeof(float)), may_alias));

inline int64_t rounded_up(int64_t size, int64_t multiple) { return (size + multiple - 1) / multiple * multiple; }

// The left factor of a product. Element (i, k) is data[i * row_stride + k * column_stride], so it may be transposed.
struct Left {
    const float* data;
    int64_t row_stride, column_stride;
};

// A row-major matrix. Both sides are padded to multiples of LANES; everything starts as zeros.
struct Matrix {
    int64_t columns;
    std::vector<Lanes> numbers;

    Matrix(int64_t rows, int64_t width)
        : columns(rounded_up(width, LANES)), numbers(rounded_up(rows, LANES) * columns / LANES) {}

    float* row(int64_t i) { return reinterpret_cast<float*>(numbers.data()) + i * columns; }
    Left rows_from(int64_t i) { return {row(i), columns, 1}; }
    Left transposed_from(int64_t i, int64_t column) { return {row(i) + column, 1, columns}; }
    void clear() { std::fill(numbers.begin(), numbers.end(), Lanes{}); }
    void clear(int64_t i, int64_t from) { std::fill(row(i) + from, row(i) + columns, 0.0f); }
};

inline void transpose(Matrix& from, int64_t rows, int64_t width, Matrix& to) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j++) to.row(j)[i] = from.row(i)[j];
}

// The part of `multiply` that fits into registers: TILE rows and REGISTERS * LANES columns of c.
template <int REGISTERS>
void multiply_tile(Left a, const float* b, int64_t b_columns, float* c, int64_t c_columns, int64_t inner, bool adds) {
    Lanes sums[TILE][REGISTERS];  // in registers
    for (int i = 0; i < TILE; i++) {
        const Lanes* from = reinterpret_cast<const Lanes*>(c + i * c_columns);
        for (int r = 0; r < REGISTERS; r++) sums[i][r] = adds ? from[r] : Lanes{};
    }
    for (int64_t k = 0; k < inner; k++) {
        Lanes right[REGISTERS];
        for (int r = 0; r < REGISTERS; r++) right[r] = reinterpret_cast<const Lanes*>(b + k * b_columns)[r];
        for (int i = 0; i < TILE; i++)
            for (int r = 0; r < REGISTERS; r++) sums[i][r] += a.data[i * a.row_stride + k * a.column_stride] * right[r];
    }
    for (int i = 0; i < TILE; i++) {
        Lanes* to = reinterpret_cast<Lanes*>(c + i * c_columns);
        for (int r = 0; r < REGISTERS; r++) to[r] = sums[i][r];
    }
}

// TILE rows of c = a b, or of c += a b if `adds`. width: columns of b and c. inner: columns of a, rows of b.
inline void multiply(Left a, const float* b, int64_t b_columns, float* c, int64_t c_columns, int64_t width,
                     int64_t inner, bool adds = false) {
    int64_t from = 0;
    for (; from + 2 * LANES <= width; from += 2 * LANES)
        multiply_tile<2>(a, b + from, b_columns, c + from, c_columns, inner, adds);
    if (from < width) multiply_tile<1>(a, b + from, b_columns, c + from, c_columns, inner, adds);
}

}  // namespace kernels
