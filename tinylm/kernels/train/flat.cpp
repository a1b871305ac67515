// Dropout, alone or added to a residual.
#include "numbers.h"

using namespace kernels;

namespace {

constexpr int64_t PIECE = 4096;  // numbers that a thread draws at a time

// Calls work(first, count) for every piece of `size` numbers.
template <class Work>
void in_pieces(int64_t size, int64_t threads, Work work) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t piece = 0; piece < (size + PIECE - 1) / PIECE; piece++)
        work(piece * PIECE, std::min(PIECE, size - piece * PIECE));
}

// z = x + dropout(y). x may be null, which counts as zero.
template <class From, class To>
void drop(const float* x, const From* y, To* z, uint64_t seed, int64_t level, float factor, int64_t size,
          int64_t threads) {
    in_pieces(size, threads, [=](int64_t first, int64_t count) {
        Draws draws(seed, level, count);
        const int16_t* bits = draws.draw(first, count);
        const From* from = y + first;
        To* to = z + first;
        if (x) {
            const float* base = x + first;
#pragma omp simd
            for (int64_t i = 0; i < count; i++) store(to[i], base[i] + (bits[i] >= draws.level ? to_float(from[i]) : 0.0f) * factor);
        } else {
#pragma omp simd
            for (int64_t i = 0; i < count; i++) store(to[i], (bits[i] >= draws.level ? to_float(from[i]) : 0.0f) * factor);
        }
    });
}

template <class Number>
void add_dropped(const float* x, const Number* y, float* z, uint64_t seed, int64_t level, float factor, int64_t size,
                 int64_t threads) {
    drop(x, y, z, seed, level, factor, size, threads);
}

// y = dropout(x)
template <class Number>
void dropped(const float* x, Number* y, uint64_t seed, int64_t level, float factor, int64_t size, int64_t threads) {
    drop(nullptr, x, y, seed, level, factor, size, threads);
}

}  // namespace

TINYLM_EXPORT(add_dropped)
TINYLM_EXPORT(dropped)
