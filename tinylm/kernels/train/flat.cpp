// Loops over numbers one by one: dropout with or without a sum, GELU, and a sum of bfloat16 numbers.
#include "numbers.h"

using namespace kernels;

namespace {

constexpr int64_t PIECE = 4096;

// `work(first, count)` for every piece of `size` numbers
template <class Work>
void in_pieces(int64_t size, int64_t threads, Work work) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t piece = 0; piece < (size + PIECE - 1) / PIECE; piece++)
        work(piece * PIECE, smaller(PIECE, size - piece * PIECE));
}

// z = x + y where kept, times factor, else x; x may be absent
template <class From, class To>
void drop(const float* x, const From* y, To* z, uint64_t seed, int64_t level, float factor, int64_t size,
          int64_t threads) {
    in_pieces(size, threads, [=](int64_t first, int64_t count) {
        Draws draws(seed, level, count);
        const int16_t* bits = draws.draw(first, count);
        const From* from = y + first;
        To* to = z + first;
        if (x) {
            const float* under = x + first;
#pragma omp simd
            for (int64_t i = 0; i < count; i++) put(to[i], under[i] + (bits[i] >= draws.level ? wide(from[i]) : 0.0f) * factor);
        } else {
#pragma omp simd
            for (int64_t i = 0; i < count; i++) put(to[i], (bits[i] >= draws.level ? wide(from[i]) : 0.0f) * factor);
        }
    });
}

struct Gelu {
    float share, slope;  // the share of the normal distribution below x, and dGELU/dx = share + x * density(x)
};

// The share by erfc's form of Abramowitz and Stegun 1964, 7.1.26: within 1e-7.
inline Gelu gelu(float x) {
    float size = x < 0 ? -x : x;
    float t = 1 / (1 + 0.3275911f * 0.70710678f * size);
    float bell = exponential(-0.5f * x * x);
    float tail = 0.5f * bell * t *
                 (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    float share = x < 0 ? tail : 1 - tail;
    return {share, share + x * 0.39894228f * bell};
}

}  // namespace

extern "C" {

void tinylm_add_dropped(const float* x, const Low* y, float* z, uint64_t seed, int64_t level, float factor,
                        int64_t size, int64_t threads) {
    drop(x, y, z, seed, level, factor, size, threads);
}

void tinylm_add_dropped_back(const float* grad, Low* by_y, uint64_t seed, int64_t level, float factor, int64_t size,
                             int64_t threads) {
    drop(nullptr, grad, by_y, seed, level, factor, size, threads);
}

void tinylm_dropped(const float* x, float* y, uint64_t seed, int64_t level, float factor, int64_t size,
                    int64_t threads) {
    drop(nullptr, x, y, seed, level, factor, size, threads);
}

// y = GELU(x); x <- dGELU/dx, so the backward pass only multiplies
void tinylm_gelu(Low* x, Low* y, int64_t size, int64_t threads) {
    in_pieces(size, threads, [=](int64_t first, int64_t count) {
#pragma omp simd
        for (int64_t i = first; i < first + count; i++) {
            Gelu found = gelu(wide(x[i]));
            put(y[i], wide(x[i]) * found.share);
            put(x[i], found.slope);
        }
    });
}

// total <- part, or total + part
void tinylm_sum_up(float* total, const Low* part, int64_t is_first, int64_t size, int64_t threads) {
    in_pieces(size, threads, [=](int64_t first, int64_t count) {
        if (is_first) {
#pragma omp simd
            for (int64_t i = first; i < first + count; i++) total[i] = wide(part[i]);
        } else {
#pragma omp simd
            for (int64_t i = first; i < first + count; i++) total[i] += wide(part[i]);
        }
    });
}
}
