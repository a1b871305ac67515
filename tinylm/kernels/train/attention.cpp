// Causal attention between its linear layers (tinylm/kernels/train/attention.py has the formulas).
//
// One head of one row after another: its queries, keys and values are copied to float32 matrices, which stay in the
// cache. Products leave out positions that no query of a tile may see.
#include "numbers.h"
#include "product.h"

#include <cmath>

using namespace kernels;

namespace {

constexpr int64_t BLOCK = 64;     // queries whose gradients of keys and values are added up together
constexpr int64_t AHEAD = 8;      // tokens between the one that is copied and the one that is fetched from memory
constexpr int64_t CACHE_LINE = 64;  // bytes

// B, T, H and Dh, and what all heads share
struct Problem {
    int64_t rows, length, heads, width;
    const float* rope;  // (T, 2, Dh / 2) or null
    float scale;
    uint64_t seed;  // of dropout
    int64_t level;
    float factor;

    bool drops() const { return factor != 1.0f; }
    // Numbers between a token and the next in (B, T, parts, H, Dh).
    int64_t stride(int64_t parts) const { return parts * heads * width; }
    // Where a part (Q, K or V) of the first token is.
    int64_t start(int64_t row, int64_t parts, int64_t part, int64_t head) const {
        return row * length * stride(parts) + (part * heads + head) * width;
    }
};

// Columns i and i + Dh / 2 rotated as a pair by the angles of a position; way -1 rotates back.
void rotate(float* numbers, const float* table, int64_t width, float way) {
    const int64_t half = width / 2;
    const float *cosine = table, *sine = table + half;
#pragma omp simd
    for (int64_t i = 0; i < half; i++) {
        float a = numbers[i], b = numbers[i + half], s = way * sine[i];
        numbers[i] = a * cosine[i] - b * s;
        numbers[i + half] = b * cosine[i] + a * s;
    }
}

// Rows of one head, (T, Dh), from numbers that are `stride` apart, rotated if `rope` is given.
template <class Number>
void load_rows(const Problem& p, const Number* from, int64_t stride, const float* rope, Matrix& to) {
    for (int64_t t = 0; t < p.length; t++, from += stride) {
        for (int64_t i = 0; i < p.width; i += CACHE_LINE / sizeof(Number)) __builtin_prefetch(from + AHEAD * stride + i);
        float* row = to.row(t);
        for (int64_t i = 0; i < p.width; i++) row[i] = to_float(from[i]);
        if (rope) rotate(row, rope + t * p.width, p.width, 1);
    }
}

template <class Number>
void store_rows(const Problem& p, Matrix& from, int64_t stride, const float* rope, Number* to) {
    for (int64_t t = 0; t < p.length; t++, to += stride) {
        for (int64_t i = 0; i < p.width; i += CACHE_LINE / sizeof(Number)) __builtin_prefetch(to + AHEAD * stride + i, 1);
        float* row = from.row(t);
        if (rope) rotate(row, rope + t * p.width, p.width, -1);
        for (int64_t i = 0; i < p.width; i++) store(to[i], row[i]);
    }
}

// `work(row, head, workspace)` for each head of each row; a thread has one workspace for all that it computes.
template <class Workspace, class Work>
void each_head(const Problem& p, int64_t threads, Work work) {
#pragma omp parallel num_threads(threads)
    {
        Workspace space(p);
#pragma omp for collapse(2) schedule(static)
        for (int64_t row = 0; row < p.rows; row++)
            for (int64_t head = 0; head < p.heads; head++) work(row, head, space);
    }
}

// numbers <- those that dropout keeps, times its factor; bits: null without dropout
void drop(float* numbers, const int16_t* bits, const Problem& p, int64_t count) {
    if (!bits) return;
    const auto level = int16_t(p.level);
#pragma omp simd
    for (int64_t i = 0; i < count; i++) numbers[i] = bits[i] >= level ? numbers[i] * p.factor : 0.0f;
}

// Scores of query t times the scale, and minus infinity for the later keys in the last register of those it sees.
void scale_and_mask(float* scores, int64_t t, float scale) {
#pragma omp simd
    for (int64_t i = 0; i < rounded_up(t + 1, LANES); i++) scores[i] = i <= t ? scores[i] * scale : -__builtin_inff();
}

// softmax in place; returns the logarithm of its denominator, sum(e^x).
float softmax(float* x, int64_t count) {
    float largest = -__builtin_inff(), total = 0;
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < count; i++) largest = x[i] > largest ? x[i] : largest;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < count; i++) {
        x[i] = exponential(x[i] - largest);
        total += x[i];
    }
    const float share = 1 / total;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) x[i] *= share;
    return largest + std::log(total);
}

struct Forward {
    Matrix queries, keys, values, output;  // (T, Dh)
    Matrix keys_t;                         // (Dh, T)
    Matrix weights;                        // (TILE, T)
    Draws draws;

    explicit Forward(const Problem& p)
        : queries(p.length, p.width), keys(p.length, p.width), values(p.length, p.width), output(p.length, p.width),
          keys_t(p.width, p.length), weights(TILE, p.length), draws(p.seed, p.level, p.length + LANES) {}
};

// joined (B, T, 3, H, Dh) -> output (B, T, H, Dh) and, for the backward pass, log_totals (B, H, T)
template <class Number>
void attention(const Number* joined, const float* rope, Number* output, float* log_totals, float scale, uint64_t seed,
               int64_t level, float factor, int64_t rows, int64_t length, int64_t heads, int64_t width, int64_t threads) {
    const Problem p{rows, length, heads, width, rope, scale, seed, level, factor};
    each_head<Forward>(p, threads, [=](int64_t row, int64_t head, Forward& w) {
        load_rows(p, joined + p.start(row, 3, 0, head), p.stride(3), rope, w.queries);
        load_rows(p, joined + p.start(row, 3, 1, head), p.stride(3), rope, w.keys);
        load_rows(p, joined + p.start(row, 3, 2, head), p.stride(3), nullptr, w.values);
        transpose(w.keys, length, width, w.keys_t);
        for (int64_t tile = 0; tile < length; tile += TILE) {
            const int64_t last = smaller(tile + TILE, length);
            multiply(w.queries.rows_from(tile), w.keys_t.row(0), w.keys_t.columns, w.weights.row(0), w.weights.columns,
                     rounded_up(last, LANES), width);
            for (int64_t t = tile; t < last; t++) {
                float* weights = w.weights.row(t - tile);
                const int64_t query = (row * heads + head) * length + t, seen = rounded_up(t + 1, LANES);
                scale_and_mask(weights, t, scale);
                log_totals[query] = softmax(weights, seen);
                drop(weights, p.drops() ? w.draws.draw(query * length, seen) : nullptr, p, seen);
                w.weights.clear(t - tile, seen);
            }
            multiply(w.weights.rows_from(0), w.values.row(0), w.values.columns, w.output.row(tile), w.output.columns,
                     w.output.columns, last);
        }
        store_rows(p, w.output, p.stride(1), nullptr, output + p.start(row, 1, 0, head));
    });
}

// scores, those of a query without scale <- dL/dscores; grad, dL/d(dropped-out weights) <- these weights
void grad_softmax(const Problem& p, float* scores, float* grad, int64_t t, float log_total, const int16_t* bits) {
    const int64_t seen = rounded_up(t + 1, LANES);
    scale_and_mask(scores, t, p.scale);
    drop(grad, bits, p, seen);
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < seen; i++) {
        scores[i] = exponential(scores[i] - log_total);  // the weights again
        dot += scores[i] * grad[i];
    }
#pragma omp simd
    for (int64_t i = 0; i < seen; i++) {
        const float weight = scores[i];
        scores[i] = weight * (grad[i] - dot) * p.scale;
        grad[i] = weight;
    }
    drop(grad, bits, p, seen);
}

struct Backward {
    Matrix queries, keys, values, grad_output;    // (T, Dh)
    Matrix keys_t, values_t;                      // (Dh, T)
    Matrix scores, weights;                       // (BLOCK, T), or their gradients
    Matrix grad_queries, grad_keys, grad_values;  // (T, Dh)
    Draws draws;

    explicit Backward(const Problem& p)
        : queries(p.length, p.width), keys(p.length, p.width), values(p.length, p.width), grad_output(p.length, p.width),
          keys_t(p.width, p.length), values_t(p.width, p.length), scores(BLOCK, p.length), weights(BLOCK, p.length),
          grad_queries(p.length, p.width), grad_keys(p.length, p.width), grad_values(p.length, p.width),
          draws(p.seed, p.level, p.length + LANES) {}
};

// grad_output (B, T, H, Dh) -> grad_joined (B, T, 3, H, Dh); the rest is as it was in `attention`.
template <class Number>
void grad_attention(const Number* joined, const float* rope, const Number* grad_output, const float* log_totals,
                    Number* grad_joined, float scale, uint64_t seed, int64_t level, float factor, int64_t rows,
                    int64_t length, int64_t heads, int64_t width, int64_t threads) {
    const Problem p{rows, length, heads, width, rope, scale, seed, level, factor};
    each_head<Backward>(p, threads, [=](int64_t row, int64_t head, Backward& w) {
        load_rows(p, joined + p.start(row, 3, 0, head), p.stride(3), rope, w.queries);
        load_rows(p, joined + p.start(row, 3, 1, head), p.stride(3), rope, w.keys);
        load_rows(p, joined + p.start(row, 3, 2, head), p.stride(3), nullptr, w.values);
        load_rows(p, grad_output + p.start(row, 1, 0, head), p.stride(1), nullptr, w.grad_output);
        transpose(w.keys, length, width, w.keys_t);
        transpose(w.values, length, width, w.values_t);
        w.grad_keys.clear();
        w.grad_values.clear();
        const int64_t columns = w.scores.columns, inner = w.queries.columns;
        for (int64_t block = 0; block < length; block += BLOCK) {
            const int64_t block_end = smaller(block + BLOCK, length);
            for (int64_t tile = block; tile < block_end; tile += TILE) {
                const int64_t last = smaller(tile + TILE, length), at = tile - block;
                multiply(w.queries.rows_from(tile), w.keys_t.row(0), columns, w.scores.row(at), columns,
                         rounded_up(last, LANES), width);
                multiply(w.grad_output.rows_from(tile), w.values_t.row(0), columns, w.weights.row(at), columns,
                         rounded_up(last, LANES), width);
                for (int64_t t = tile; t < last; t++) {
                    const int64_t query = (row * heads + head) * length + t, seen = rounded_up(t + 1, LANES);
                    const int16_t* bits = p.drops() ? w.draws.draw(query * length, seen) : nullptr;
                    grad_softmax(p, w.scores.row(t - block), w.weights.row(t - block), t, log_totals[query], bits);
                    w.scores.clear(t - block, seen);
                    w.weights.clear(t - block, seen);
                }
                multiply(w.scores.rows_from(at), w.keys.row(0), inner, w.grad_queries.row(tile), inner, inner, last);
            }
            for (int64_t tile = 0; tile < block_end; tile += TILE) {  // of keys
                const int64_t from = tile > block ? tile : block;     // the first query that sees one
                multiply(w.weights.columns_from(from - block, tile), w.grad_output.row(from), inner,
                         w.grad_values.row(tile), inner, inner, block_end - from, true);
                multiply(w.scores.columns_from(from - block, tile), w.queries.row(from), inner, w.grad_keys.row(tile),
                         inner, inner, block_end - from, true);
            }
        }
        store_rows(p, w.grad_queries, p.stride(3), rope, grad_joined + p.start(row, 3, 0, head));
        store_rows(p, w.grad_keys, p.stride(3), rope, grad_joined + p.start(row, 3, 1, head));
        store_rows(p, w.grad_values, p.stride(3), nullptr, grad_joined + p.start(row, 3, 2, head));
    });
}

}  // namespace

TINYLM_EXPORT(attention)
TINYLM_EXPORT(grad_attention)
