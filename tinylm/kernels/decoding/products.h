// Products of a few rows with a weight matrix, in float32.
//
// Weights (N, K) are packed as (N / 32, K, 32): panels of 32 outputs, each of which one pass over the inputs fills.
// An output is summed in the same order whatever the number of rows, so a row does not depend on its batch.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

// A vector fills one register: GCC keeps longer ones in memory, which is 50 times slower. TALL rows share a pass over a
// panel, as many as leave their sums in registers: 24 of 32, or 8 of AVX2's 16.
#if defined(__AVX512F__)
constexpr int LANES = 16, TALL = 12;
#elif defined(__AVX__)
constexpr int LANES = 8, TALL = 2;
#else
constexpr int LANES = 4, TALL = 2;
#endif
constexpr int PANEL = 32, PARTS = PANEL / LANES;
typedef float Vector __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t Integers __attribute__((vector_size(LANES * sizeof(float))));
#define INLINE inline __attribute__((always_inline))

constexpr int64_t LARGE = 4 << 20;  // bytes of weights that are worth a second thread

struct Linear {
    const float *weight;  // packed
    const float *bias;    // padded to whole panels, or null
    int64_t outputs, inputs;
};

enum class After { store, add, relu, gelu };

INLINE Vector load(const float* from) {
    Vector vector;
    std::memcpy(&vector, from, sizeof vector);
    return vector;
}

INLINE void store(float* to, Vector vector) { std::memcpy(to, &vector, sizeof vector); }

template <int COUNT>
struct Floats {
    typedef float Type __attribute__((vector_size(COUNT * sizeof(float))));
};

// The sum of a vector's numbers, by halving it.
template <int COUNT = LANES>
INLINE float sum_of(typename Floats<COUNT>::Type vector) {
    if constexpr (COUNT == 1) return vector[0];
    else {
        typename Floats<COUNT / 2>::Type halves[2];
        std::memcpy(halves, &vector, sizeof vector);
        return sum_of<COUNT / 2>(halves[0] + halves[1]);
    }
}

// e^x for x <= 0 by a polynomial (Cephes' expf), relative error below 2e-7.
INLINE Vector exp_of(Vector x) {
    x = x < -87.0f ? Vector{} - 87.0f : x;
    Vector n = x * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: the sum's last bits are the nearest whole number
    Integers power = (Integers)n << 23;
    n -= 12582912.0f;
    Vector r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    Vector p = Vector{} + 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return (Vector)((Integers)p + power);
}

// x Phi(x), with erf as in Abramowitz and Stegun 7.1.26, absolute error below 2e-7.
INLINE Vector gelu(Vector x) {
    Vector z = (x < 0.0f ? -x : x) * 0.70710678f;
    Vector t = 1.0f / (1.0f + 0.3275911f * z);
    Vector p = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
    Vector erf = 1.0f - p * exp_of(-z * z);
    return 0.5f * x * (1.0f + (x < 0.0f ? -erf : erf));
}

// Add the bias to one part of a panel's sums, apply what follows the product, and store its outputs from `first` on.
INLINE void finish(const Linear& linear, Vector sum, int64_t first, float* y, After after) {
    if (linear.bias) sum += load(linear.bias + first);
    if (after == After::relu) sum = sum > 0.0f ? sum : Vector{};
    if (after == After::gelu) sum = gelu(sum);
    const int64_t count = std::min<int64_t>(LANES, linear.outputs - first);
    if (count == LANES) {
        if (after == After::add) sum += load(y + first);
        store(y + first, sum);
        return;
    }
    for (int64_t i = 0; i < count; ++i) y[first + i] = sum[i] + (after == After::add ? y[first + i] : 0.0f);
}

// One panel of ROWS rows: x (ROWS, K) to outputs first to first + 32 of y (ROWS, N).
template <int ROWS>
void panel(const Linear& linear, int64_t first, const float* x, float* y, After after) {
    const int64_t inputs = linear.inputs;
    const float* weight = linear.weight + first * inputs;
    Vector sums[ROWS][PARTS] = {};
    for (int64_t input = 0; input < inputs; ++input, weight += PANEL) {
        if constexpr (ROWS > 2) {  // fewer rows only wait for memory, which the processor reads ahead by itself
            __builtin_prefetch(weight + inputs * PANEL, 0, 2);  // the next panel
            __builtin_prefetch(weight + inputs * PANEL + PANEL / 2, 0, 2);
        }
        // Unrolled, so that the sums stay in registers.
#pragma GCC unroll 8
        for (int part = 0; part < PARTS; ++part) {
            const Vector weights = load(weight + part * LANES);
#pragma GCC unroll 16
            for (int row = 0; row < ROWS; ++row) sums[row][part] += weights * x[row * inputs + input];
        }
    }
    for (int row = 0; row < ROWS; ++row)
        for (int part = 0; part < PARTS; ++part) {
            const int64_t output = first + part * LANES;
            if (output < linear.outputs) finish(linear, sums[row][part], output, y + row * linear.outputs, after);
        }
}

// The same for any number of rows up to TALL.
template <int ROWS = TALL>
void panel_of(int64_t rows, const Linear& linear, int64_t first, const float* x, float* y, After after) {
    if constexpr (ROWS > 1) {
        if (rows < ROWS) return panel_of<ROWS - 1>(rows, linear, first, x, y, after);
    }
    panel<ROWS>(linear, first, x, y, after);
}

// y (rows, N) = x (rows, K) W^T + bias, then what `after` says; `add` adds to what y holds.
inline void product(const Linear& linear, int64_t rows, const float* x, float* y, After after, int64_t threads) {
    const int64_t panels = (linear.outputs + PANEL - 1) / PANEL;
    const int64_t bytes = panels * PANEL * linear.inputs * sizeof(float);
    const int64_t blocks = (rows + TALL - 1) / TALL;
#pragma omp parallel for num_threads(threads) if (threads > 1 && bytes > LARGE)
    for (int64_t number = 0; number < panels; ++number)
        for (int64_t block = 0; block < blocks; ++block) {
            const int64_t row = rows * block / blocks;
            const int64_t height = rows * (block + 1) / blocks - row;
            panel_of(height, linear, number * PANEL, x + row * linear.inputs, y + row * linear.outputs, after);
        }
}
