// Products of small matrices in float32, of which every side is a multiple of LANES or TILE.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kernels {

// Numbers that one register holds, and rows of a result that fit into the registers together.
#ifdef __AVX512F__
constexpr int64_t LANES = 16, TILE = 8;
#else
constexpr int64_t LANES = 8, TILE = 4;
#endif

// The compiler splits this type where registers are smaller.
typedef float Lanes __attribute__((vector_size(LANES * sizeof(float)), may_alias));

inline int64_t rounded_up(int64_t size, int64_t multiple) { return (size + multiple - 1) / multiple * multiple; }

// The left factor of a product: number (i, k) is at[i * row + k * column], so that it may be a transposed matrix.
struct Left {
    const float* at;
    int64_t row, column;
};

// A matrix in row order; the numbers that fill its sides up to multiples of LANES start as zeros.
struct Matrix {
    int64_t columns;
    std::vector<Lanes> numbers;

    Matrix(int64_t rows, int64_t width)
        : columns(rounded_up(width, LANES)), numbers(rounded_up(rows, LANES) * columns / LANES) {}

    float* row(int64_t i) { return reinterpret_cast<float*>(numbers.data()) + i * columns; }
    Left rows_from(int64_t i) { return {row(i), columns, 1}; }
    Left columns_from(int64_t i, int64_t column) { return {row(i) + column, 1, columns}; }
    void clear() { std::fill(numbers.begin(), numbers.end(), Lanes{}); }
    void clear(int64_t i, int64_t from) { std::fill(row(i) + from, row(i) + columns, 0.0f); }
};

inline void transpose(Matrix& from, int64_t rows, int64_t width, Matrix& to) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j++) to.row(j)[i] = from.row(i)[j];
}

// PARTS * LANES columns of TILE rows of c: the product over `count` numbers, or (if `adds`) c plus it.
template <int PARTS>
void multiply_tile(Left a, const float* b, int64_t b_columns, float* c, int64_t c_columns, int64_t count, bool adds) {
    Lanes sums[TILE][PARTS];  // in registers
    for (int i = 0; i < TILE; i++) {
        const Lanes* from = reinterpret_cast<const Lanes*>(c + i * c_columns);
        for (int part = 0; part < PARTS; part++) sums[i][part] = adds ? from[part] : Lanes{};
    }
    for (int64_t k = 0; k < count; k++) {
        Lanes right[PARTS];
        for (int part = 0; part < PARTS; part++)
            right[part] = reinterpret_cast<const Lanes*>(b + k * b_columns)[part];
        for (int i = 0; i < TILE; i++)
            for (int part = 0; part < PARTS; part++) sums[i][part] += a.at[i * a.row + k * a.column] * right[part];
    }
    for (int i = 0; i < TILE; i++) {
        Lanes* to = reinterpret_cast<Lanes*>(c + i * c_columns);
        for (int part = 0; part < PARTS; part++) to[part] = sums[i][part];
    }
}

// TILE rows of c = a b, or c += a b: `count` numbers of a's rows with as many rows of b, `width` columns of both.
inline void multiply(Left a, const float* b, int64_t b_columns, float* c, int64_t c_columns, int64_t width,
                     int64_t count, bool adds = false) {
    int64_t from = 0;
    for (; from + 2 * LANES <= width; from += 2 * LANES)
        multiply_tile<2>(a, b + from, b_columns, c + from, c_columns, count, adds);
    if (from < width) multiply_tile<1>(a, b + from, b_columns, c + from, c_columns, count, adds);
}

}  // namespace kernels
