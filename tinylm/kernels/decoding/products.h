// Products of a few rows with a packed weight matrix, in fp32, bf16 or int8.
//
// Weights and inputs are rows of 32-bit words: a word holds one fp32, two bf16 or four int8 neighbours along the inputs.
// Weights (N, K) are packed as (N / 32, words, 32): panels of 32 outputs, which one pass over the words fills. Each
// output is summed in the same order whatever the number of rows, so a row does not depend on its batch.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

typedef float F __attribute__((vector_size(64)));
typedef int32_t I __attribute__((vector_size(64)));
typedef uint32_t U __attribute__((vector_size(64)));
#define INLINE inline __attribute__((always_inline))

constexpr int LANES = 16, PANEL = 32;
#if defined(__AVX512F__)
constexpr int TALL = 12;  // rows that share a pass over a panel: 24 sums in 32 registers
#else
constexpr int TALL = 3;
#endif

template <class To, class From> INLINE To bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

struct Half {  // IEEE 754 binary16
    uint16_t bits;
};

struct Fp32 {
    typedef F Sum;
    typedef float Slot;  // of a cached key or value
    static INLINE void add(F& sum, U weight, uint32_t x) { sum += (F)weight * bits<float>(x); }
};

struct Bf16 {
    typedef F Sum;
    typedef Half Slot;
    static INLINE void add(F& sum, U weight, uint32_t x) {
#if defined(__AVX512BF16__)
        sum = (F)_mm512_dpbf16_ps((__m512)sum, (__m512bh)weight, (__m512bh)_mm512_set1_epi32((int)x));
#else
        sum += (F)(weight << 16) * bits<float>(x << 16);
        sum += (F)(weight & 0xffff0000u) * bits<float>(x & 0xffff0000u);
#endif
    }
};

struct Int8 {  // inputs are stored with their row's zero added, so they are unsigned
    typedef I Sum;
    typedef Half Slot;
    static INLINE void add(I& sum, U weight, uint32_t x) {
#if defined(__AVX512VNNI__)
        sum = (I)_mm512_dpbusd_epi32((__m512i)sum, _mm512_set1_epi32((int)x), (__m512i)weight);
#else
        I w = (I)weight;
        sum += ((w << 24) >> 24) * (int32_t)(x & 255) + ((w << 16) >> 24) * (int32_t)(x >> 8 & 255);
        sum += ((w << 8) >> 24) * (int32_t)(x >> 16 & 255) + (w >> 24) * (int32_t)(x >> 24);
#endif
    }
};

struct Linear {
    const uint32_t* weight;  // packed
    const float* scale;      // int8: size of one step of each output, else null
    const int32_t* sums;     // int8: each output's sum of weights
    const float* bias;       // or null
    int64_t outputs, inputs;
};

struct Unit {  // int8: of a row of inputs
    float size;    // of one step
    int32_t zero;  // how 0 is stored
};

inline int64_t panels(const Linear& linear) { return (linear.outputs + PANEL - 1) / PANEL; }

enum class After { store, add, relu, gelu };

INLINE F exp_of(F x) {  // e^x for x <= 0, relative error below 2e-7
    x = x < -87.0f ? F{} - 87.0f : x;
    F n = x * 1.44269504f + 12582912.0f;  // rounds to a whole number
    I power = (I)n << 23;
    n -= 12582912.0f;
    F r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    F p = F{} + 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return (F)((I)p + power);
}

INLINE F gelu(F x) {  // x Phi(x), erf as in Abramowitz and Stegun 7.1.26, absolute error below 2e-7
    F z = (x < 0.0f ? -x : x) * 0.70710678f;
    F t = 1.0f / (1.0f + 0.3275911f * z);
    F p = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
    F erf = 1.0f - p * exp_of(-z * z);
    return 0.5f * x * (1.0f + (x < 0.0f ? -erf : erf));
}

INLINE F load(const float* from) {
    F v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

INLINE F load(const Half* from) {
#if defined(__AVX512F__)
    return (F)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)from));
#else
    typedef uint16_t H __attribute__((vector_size(32)));
    H halves;
    std::memcpy(&halves, from, sizeof halves);
    U word = __builtin_convertvector(halves, U);
    F size = (F)((word & 0x7fff) << 13) * 0x1p112f;
    return (F)((U)size | (word & 0x8000) << 16);
#endif
}

INLINE Half half_of(float x) {  // to the nearest, even of two; what is too large to the largest
    uint32_t word = bits<uint32_t>(std::min(std::fabs(x), 65504.0f) * 0x1p-112f);
    return {(uint16_t)((word + 0xfff + (word >> 13 & 1)) >> 13 | (bits<uint32_t>(x) >> 16 & 0x8000))};
}

INLINE void keep(const float* from, int64_t count, float* to) { std::copy_n(from, count, to); }

INLINE void keep(const float* from, int64_t count, Half* to) {
    for (int64_t i = 0; i < count; ++i) to[i] = half_of(from[i]);
}

INLINE float sum_of(F v) {  // in halves
    typedef float F8 __attribute__((vector_size(32)));
    typedef float F4 __attribute__((vector_size(16)));
    F8 eight[2];
    std::memcpy(eight, &v, sizeof v);
    F8 half = eight[0] + eight[1];
    F4 four[2];
    std::memcpy(four, &half, sizeof half);
    F4 last = four[0] + four[1];
    return (last[0] + last[2]) + (last[1] + last[3]);
}

// Scale, bias and whatever else follows, for a panel of `rows` rows from output `first` on; arrays hold whole panels.
template <class Sum>
void finish(const Linear& linear, int64_t rows, const Sum* sums, int64_t first, const Unit* units, float* y,
            int64_t y_stride, After after) {
    for (int half = 0; half < 2; ++half, first += LANES) {
        const F bias = linear.bias ? load(linear.bias + first) : F{};
        const F scale = linear.scale ? load(linear.scale + first) : F{};
        I weights{};
        if (linear.sums) std::memcpy(&weights, linear.sums + first, sizeof weights);
        const bool whole = first + LANES <= linear.outputs;
        for (int64_t row = 0; row < rows; ++row) {
            F v;
            if constexpr (std::is_same_v<Sum, I>) {
                v = __builtin_convertvector(sums[2 * row + half] - weights * units[row].zero, F) * scale *
                        units[row].size + bias;
            } else {
                v = sums[2 * row + half] + bias;
            }
            if (after == After::relu) v = v > 0.0f ? v : F{};
            if (after == After::gelu) v = gelu(v);
            float* to = y + row * y_stride + first;
            if (whole) {
                if (after == After::add) v += load(to);
                std::memcpy(to, &v, sizeof v);
            } else {
                for (int64_t i = 0; i < linear.outputs - first; ++i) to[i] = v[i] + (after == After::add ? to[i] : 0.0f);
            }
        }
    }
}

template <class Kind, int ROWS>
INLINE void panel_sums(const uint32_t* weight, const uint32_t* x, int64_t words, typename Kind::Sum* result) {
    typename Kind::Sum sums[ROWS][2] = {};
    for (int64_t word = 0; word < words; ++word, weight += PANEL) {
        U left, right;
        std::memcpy(&left, weight, sizeof left);
        std::memcpy(&right, weight + LANES, sizeof right);
        if constexpr (ROWS > 2) {  // fewer only wait for memory, and there the processor's own prefetching is the faster
            __builtin_prefetch(weight + words * PANEL, 0, 2);  // the next panel
            __builtin_prefetch(weight + words * PANEL + LANES, 0, 2);
        }
#pragma GCC unroll 16
        for (int row = 0; row < ROWS; ++row) {  // unrolled, so that the sums stay in registers
            Kind::add(sums[row][0], left, x[row * words + word]);
            Kind::add(sums[row][1], right, x[row * words + word]);
        }
    }
    std::memcpy(result, sums, sizeof sums);
}

// The sums of a panel for any number of rows up to TALL, (rows, 2).
template <class Kind, int ROWS = TALL>
void block_sums(int64_t rows, const uint32_t* weight, const uint32_t* x, int64_t words, typename Kind::Sum* result) {
    if constexpr (ROWS > 1) {
        if (rows < ROWS) return block_sums<Kind, ROWS - 1>(rows, weight, x, words, result);
    }
    panel_sums<Kind, ROWS>(weight, x, words, result);
}

// y (rows, N) = x W^T: panels first to last, blocks of equal height.
template <class Kind>
void product(const Linear& linear, int64_t rows, const uint32_t* x, const Unit* units, int64_t words, int64_t first,
             int64_t last, float* y, int64_t y_stride, After after) {
    int64_t blocks = (rows + TALL - 1) / TALL;
    for (int64_t panel = first; panel < last; ++panel)
        for (int64_t block = 0; block < blocks; ++block) {
            int64_t row = rows * block / blocks, height = rows * (block + 1) / blocks - row;
            typename Kind::Sum sums[2 * TALL];
            block_sums<Kind>(height, linear.weight + panel * words * PANEL, x + row * words, words, sums);
            finish(linear, height, sums, panel * PANEL, units + row, y + row * y_stride, y_stride, after);
        }
}
