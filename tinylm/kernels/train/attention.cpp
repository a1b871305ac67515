// The passes of attention between its products (tinylm/kernels/train/attention.py has the formulas).
#include "numbers.h"

#include <cstring>

using namespace kernels;

namespace {

struct Sizes {
    int64_t rows, length, parts, heads, width;  // B, T, how many of Q, K and V, H, Dh
};

// Columns i and i + Dh / 2 rotated as a pair: `table` has Dh / 2 cosines, then as many sines; way -1 rotates back.
template <class Number>
void rotate(const Number* from, Number* to, const float* table, int64_t width, float way) {
    const int64_t half = width / 2;
    const float *cosine = table, *sine = table + half;
#pragma omp simd
    for (int64_t i = 0; i < half; i++) {
        float a = to_float(from[i]), b = to_float(from[i + half]), s = way * sine[i];
        store(to[i], a * cosine[i] - b * s);
        store(to[i + half], b * cosine[i] + a * s);
    }
}

// `copy(at inside, at apart)` for each run of Dh numbers: inside (B, T, parts, H, Dh), apart (parts, B, H, T, Dh).
// The first two parts, Q and K, are rotated if there is a table (T, 2, Dh / 2).
template <class Copy>
void reorder(const Sizes& s, const float* rope, int64_t threads, Copy copy) {
#pragma omp parallel for collapse(2) num_threads(threads) schedule(static)
    for (int64_t row = 0; row < s.rows; row++)
        for (int64_t t = 0; t < s.length; t++)
            for (int64_t part = 0; part < s.parts; part++)
                for (int64_t head = 0; head < s.heads; head++)
                    copy((((row * s.length + t) * s.parts + part) * s.heads + head) * s.width,
                         (((part * s.rows + row) * s.heads + head) * s.length + t) * s.width,
                         rope && part < 2 ? rope + t * s.width : nullptr);
}

// `work(at, row)` for each of `count` rows, with a buffer of `seen` numbers and the row's draws, if there are any
template <class Work>
void each_row(int64_t count, int64_t seen, uint64_t seed, int16_t level, bool drawn, int64_t threads, Work work) {
#pragma omp parallel num_threads(threads)
    {
        Draws draws(seed, level, drawn ? seen : 0);
        std::vector<float> buffer(seen);
#pragma omp for schedule(static)
        for (int64_t at = 0; at < count; at++)
            work(at, buffer.data(), drawn ? draws.draw(at * seen, seen) : nullptr);
    }
}

template <class Number>
void split_heads(const Number* inside, Number* apart, const float* rope, int64_t rows, int64_t length, int64_t parts,
                        int64_t heads, int64_t width, int64_t threads) {
    reorder({rows, length, parts, heads, width}, rope, threads, [=](int64_t in, int64_t out, const float* table) {
        if (table) rotate(inside + in, apart + out, table, width, 1);
        else std::memcpy(apart + out, inside + in, width * sizeof(Number));
    });
}

template <class Number>
void join_heads(const Number* apart, Number* inside, const float* rope, int64_t rows, int64_t length, int64_t parts,
                       int64_t heads, int64_t width, int64_t threads) {
    reorder({rows, length, parts, heads, width}, rope, threads, [=](int64_t in, int64_t out, const float* table) {
        if (table) rotate(apart + out, inside + in, table, width, -1);
        else std::memcpy(inside + in, apart + out, width * sizeof(Number));
    });
}

// weights (B * H, T, S) <- softmax(scale weights + mask) in place; kept, if given, the same times factor with zeros
// where dropped. mask (B or 1, T, S): `masks` of them.
template <class Number>
void softmax_dropout(Number* weights, Number* kept, float scale, const float* mask, int64_t masks, uint64_t seed,
                   int64_t level, float factor, int64_t rows, int64_t heads, int64_t length, int64_t seen, int64_t threads) {
    const auto cut = int16_t(level);
    each_row(rows * heads * length, seen, seed, cut, kept, threads, [=](int64_t at, float* row, const int16_t* bits) {
        Number* w = weights + at * seen;
        const float* mask_row = mask + ((masks > 1 ? at / (heads * length) : 0) * length + at % length) * seen;
        float largest = -__builtin_inff(), total = 0;
#pragma omp simd reduction(max : largest)
        for (int64_t i = 0; i < seen; i++) {
            row[i] = to_float(w[i]) * scale + mask_row[i];
            largest = row[i] > largest ? row[i] : largest;
        }
#pragma omp simd reduction(+ : total)
        for (int64_t i = 0; i < seen; i++) {
            row[i] = exponential(row[i] - largest);
            total += row[i];
        }
        float share = 1 / total;
#pragma omp simd
        for (int64_t i = 0; i < seen; i++) store(w[i], row[i] * share);
        if (!kept) return;
        Number* k = kept + at * seen;
#pragma omp simd
        for (int64_t i = 0; i < seen; i++) store(k[i], bits[i] >= cut ? row[i] * share * factor : 0.0f);
    });
}

// by (B * H, T, S), dL/dkept, <- dL/d(weights before `softmax_dropout`) in place; kept, if given, as that filled it.
template <class Number>
void grad_scores(Number* by, const Number* weights, Number* kept, float scale, uint64_t seed, int64_t level,
                      float factor, int64_t rows, int64_t heads, int64_t length, int64_t seen, int64_t threads) {
    const auto cut = int16_t(level);
    each_row(rows * heads * length, seen, seed, cut, kept, threads, [=](int64_t at, float* row, const int16_t* bits) {
        Number* d = by + at * seen;
        const Number* w = weights + at * seen;
        float dot = 0;
        if (kept) {
            Number* k = kept + at * seen;
#pragma omp simd reduction(+ : dot)
            for (int64_t i = 0; i < seen; i++) {
                bool stays = bits[i] >= cut;
                store(k[i], stays ? to_float(w[i]) * factor : 0.0f);
                row[i] = stays ? to_float(d[i]) * factor : 0.0f;
                dot += row[i] * to_float(w[i]);
            }
        } else {
#pragma omp simd reduction(+ : dot)
            for (int64_t i = 0; i < seen; i++) row[i] = to_float(d[i]), dot += row[i] * to_float(w[i]);
        }
#pragma omp simd
        for (int64_t i = 0; i < seen; i++) store(d[i], to_float(w[i]) * (row[i] - dot) * scale);
    });
}

}  // namespace

TINYLM_EXPORT(split_heads)
TINYLM_EXPORT(join_heads)
TINYLM_EXPORT(softmax_dropout)
TINYLM_EXPORT(grad_scores)
