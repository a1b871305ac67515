// Causal attention and its gradient (tinylm/kernels/train/attention.py has the formulas).
//
// Each thread computes one head of one row at a time. It copies the head's queries, keys and values to float32 matrices
// that fit into the cache. Queries are taken a tile at a time, and keys later than the whole tile are skipped.
#include "numbers.h"
#include "product.h"

using namespace kernels;

namespace {

constexpr int64_t BLOCK = 64;       // queries whose contributions to dK and dV are added by one product
constexpr int64_t AHEAD = 8;        // how many tokens ahead of the copy memory is fetched
constexpr int64_t CACHE_LINE = 64;  // bytes
enum Part : int64_t { QUERY, KEY, VALUE, PARTS };  // the third axis of (B, T, 3, H, Dh)

// The sizes B, T, H and Dh, and what is the same for all heads.
struct Problem {
    int64_t rows, length, heads, width;
    const float* rope;  // (T, 2, Dh / 2) or null
    float scale;
    uint64_t seed;  // of dropout, as are the next two
    int64_t level;
    float factor;

    bool has_dropout() const { return factor != 1.0f; }
    // Distance between a token and the next in (B, T, parts, H, Dh), in numbers.
    int64_t stride(int64_t parts) const { return parts * heads * width; }
    // Where the head's part (QUERY, KEY or VALUE) of the row's first token is.
    int64_t start(int64_t row, int64_t parts, int64_t part, int64_t head) const {
        return row * length * stride(parts) + (part * heads + head) * width;
    }
};

// Rotates columns i and i + Dh / 2 as a pair by the angles of one position. direction: 1, or -1 to rotate back.
void rotate(float* numbers, const float* table, int64_t width, float direction) {
    const int64_t half = width / 2;
    const float *cosine = table, *sine = table + half;
#pragma omp simd
    for (int64_t i = 0; i < half; i++) {
        float a = numbers[i], b = numbers[i + half], s = direction * sine[i];
        numbers[i] = a * cosine[i] - b * s;
        numbers[i + half] = b * cosine[i] + a * s;
    }
}

// Copies one head of all tokens, which are `stride` numbers apart, to a (T, Dh) matrix; rotates it if `rope` is given.
template <class Number>
void load_rows(const Problem& p, const Number* from, int64_t stride, const float* rope, Matrix& to) {
    for (int64_t t = 0; t < p.length; t++, from += stride) {
        for (int64_t i = 0; i < p.width; i += CACHE_LINE / sizeof(Number)) __builtin_prefetch(from + AHEAD * stride + i);
        float* row = to.row(t);
        for (int64_t i = 0; i < p.width; i++) row[i] = to_float(from[i]);
        if (rope) rotate(row, rope + t * p.width, p.width, 1);
    }
}

// The reverse of load_rows. Rotates back in place, so it changes `from`.
template <class Number>
void store_rows(const Problem& p, Matrix& from, int64_t stride, const float* rope, Number* to) {
    for (int64_t t = 0; t < p.length; t++, to += stride) {
        for (int64_t i = 0; i < p.width; i += CACHE_LINE / sizeof(Number)) __builtin_prefetch(to + AHEAD * stride + i, 1);
        float* row = from.row(t);
        if (rope) rotate(row, rope + t * p.width, p.width, -1);
        for (int64_t i = 0; i < p.width; i++) store(to[i], row[i]);
    }
}

// Calls work(row, head, workspace) for every head of every row. Each thread allocates one workspace and reuses it.
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

// Dropout in place: numbers that are kept are multiplied by the factor. bits: null if there is no dropout.
void apply_dropout(float* numbers, const int16_t* bits, const Problem& p, int64_t count) {
    if (!bits) return;
    const auto level = int16_t(p.level);
#pragma omp simd
    for (int64_t i = 0; i < count; i++) numbers[i] = bits[i] >= level ? numbers[i] * p.factor : 0.0f;
}

// How many keys are computed for query t: keys 0 to t, and those that share a register with key t.
int64_t seen_by(int64_t t) { return rounded_up(t + 1, LANES); }

// Scales the scores of query t. Later keys become minus infinity.
void scale_and_mask(float* scores, int64_t t, float scale) {
#pragma omp simd
    for (int64_t i = 0; i < seen_by(t); i++) scores[i] = i <= t ? scores[i] * scale : -__builtin_inff();
}

// The softmax of scores x is e^(x - largest) * inverse. The usual single number, logsumexp = largest - log(inverse),
// would round the logarithm away where scores are large.
struct Normaliser { float largest, inverse; };

// Softmax in place. The backward pass recomputes it from the result.
Normaliser softmax(float* x, int64_t count) {
    float largest = -__builtin_inff(), total = 0;
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < count; i++) largest = x[i] > largest ? x[i] : largest;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < count; i++) {
        x[i] = exponential(x[i] - largest);
        total += x[i];
    }
    const float inverse = 1 / total;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) x[i] *= inverse;
    return {largest, inverse};
}

struct ForwardWorkspace {
    Matrix queries, keys, values, output;  // (T, Dh)
    Matrix keys_t;                         // (Dh, T)
    Matrix weights;                        // (TILE, T)
    Draws draws;

    explicit ForwardWorkspace(const Problem& p)
        : queries(p.length, p.width), keys(p.length, p.width), values(p.length, p.width), output(p.length, p.width),
          keys_t(p.width, p.length), weights(TILE, p.length), draws(p.seed, p.level, p.length + LANES) {}
};

// qkv (B, T, 3, H, Dh) -> output (B, T, H, Dh) and, for the backward pass, normalisers (B, H, T)
template <class Number>
void attention(const Number* qkv, const float* rope, Number* output, Normaliser* normalisers, float scale,
               uint64_t seed, int64_t level, float factor, int64_t rows, int64_t length, int64_t heads, int64_t width,
               int64_t threads) {
    const Problem p{rows, length, heads, width, rope, scale, seed, level, factor};
    each_head<ForwardWorkspace>(p, threads, [=](int64_t row, int64_t head, ForwardWorkspace& w) {
        load_rows(p, qkv + p.start(row, PARTS, QUERY, head), p.stride(PARTS), rope, w.queries);
        load_rows(p, qkv + p.start(row, PARTS, KEY, head), p.stride(PARTS), rope, w.keys);
        load_rows(p, qkv + p.start(row, PARTS, VALUE, head), p.stride(PARTS), nullptr, w.values);
        transpose(w.keys, length, width, w.keys_t);
        for (int64_t tile = 0; tile < length; tile += TILE) {
            const int64_t tile_end = std::min(tile + TILE, length);
            multiply(w.queries.rows_from(tile), w.keys_t.row(0), w.keys_t.columns, w.weights.row(0), w.weights.columns,
                     rounded_up(tile_end, LANES), width);
            for (int64_t t = tile; t < tile_end; t++) {
                float* weights = w.weights.row(t - tile);
                const int64_t query_index = (row * heads + head) * length + t, seen = seen_by(t);
                scale_and_mask(weights, t, scale);
                normalisers[query_index] = softmax(weights, seen);
                apply_dropout(weights, p.has_dropout() ? w.draws.draw(query_index * length, seen) : nullptr, p, seen);
                w.weights.clear(t - tile, seen);  // the product below reads as many keys for all queries of the tile
            }
            multiply(w.weights.rows_from(0), w.values.row(0), w.values.columns, w.output.row(tile), w.output.columns,
                     w.output.columns, tile_end);
        }
        store_rows(p, w.output, p.stride(1), nullptr, output + p.start(row, 1, 0, head));
    });
}

// The gradient of scale, mask, softmax and dropout for query t. It overwrites both rows, to save two more matrices.
// scores: q k before scaling, becomes dL/d(q k). grad: dL/d(weights after dropout), becomes these weights.
void grad_softmax(const Problem& p, float* scores, float* grad, int64_t t, Normaliser normaliser, const int16_t* bits) {
    const int64_t seen = seen_by(t);
    // Aliases of the two rows, named after what they become.
    float *weights = scores, *grad_scores = scores, *dropped_weights = grad;
    scale_and_mask(scores, t, p.scale);
    apply_dropout(grad, bits, p, seen);
    float dot = 0;  // sum(dP * P)
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < seen; i++) {
        weights[i] = exponential(scores[i] - normaliser.largest) * normaliser.inverse;
        dot += weights[i] * grad[i];
    }
#pragma omp simd
    for (int64_t i = 0; i < seen; i++) {
        const float weight = weights[i];
        grad_scores[i] = weight * (grad[i] - dot) * p.scale;
        dropped_weights[i] = weight;
    }
    apply_dropout(dropped_weights, bits, p, seen);
}

struct BackwardWorkspace {
    Matrix queries, keys, values, grad_output;    // (T, Dh)
    Matrix keys_t, values_t;                      // (Dh, T)
    Matrix grad_scores, weights;                  // (BLOCK, T); before `grad_softmax` the scores and dL/d(weights)
    Matrix grad_queries, grad_keys, grad_values;  // (T, Dh)
    Draws draws;

    explicit BackwardWorkspace(const Problem& p)
        : queries(p.length, p.width), keys(p.length, p.width), values(p.length, p.width), grad_output(p.length, p.width),
          keys_t(p.width, p.length), values_t(p.width, p.length), grad_scores(BLOCK, p.length),
          weights(BLOCK, p.length), grad_queries(p.length, p.width), grad_keys(p.length, p.width),
          grad_values(p.length, p.width), draws(p.seed, p.level, p.length + LANES) {}
};

// grad_output (B, T, H, Dh) -> grad_qkv (B, T, 3, H, Dh); the other arguments are those of `attention`.
template <class Number>
void grad_attention(const Number* qkv, const float* rope, const Number* grad_output, const Normaliser* normalisers,
                    Number* grad_qkv, float scale, uint64_t seed, int64_t level, float factor, int64_t rows,
                    int64_t length, int64_t heads, int64_t width, int64_t threads) {
    const Problem p{rows, length, heads, width, rope, scale, seed, level, factor};
    each_head<BackwardWorkspace>(p, threads, [=](int64_t row, int64_t head, BackwardWorkspace& w) {
        load_rows(p, qkv + p.start(row, PARTS, QUERY, head), p.stride(PARTS), rope, w.queries);
        load_rows(p, qkv + p.start(row, PARTS, KEY, head), p.stride(PARTS), rope, w.keys);
        load_rows(p, qkv + p.start(row, PARTS, VALUE, head), p.stride(PARTS), nullptr, w.values);
        load_rows(p, grad_output + p.start(row, 1, 0, head), p.stride(1), nullptr, w.grad_output);
        transpose(w.keys, length, width, w.keys_t);
        transpose(w.values, length, width, w.values_t);
        w.grad_keys.clear();
        w.grad_values.clear();
        const int64_t padded_length = w.grad_scores.columns, padded_width = w.queries.columns;
        for (int64_t block = 0; block < length; block += BLOCK) {
            const int64_t block_end = std::min(block + BLOCK, length);
            for (int64_t tile = block; tile < block_end; tile += TILE) {
                const int64_t tile_end = std::min(tile + TILE, length), at = tile - block;
                multiply(w.queries.rows_from(tile), w.keys_t.row(0), padded_length, w.grad_scores.row(at),
                         padded_length, rounded_up(tile_end, LANES), width);
                multiply(w.grad_output.rows_from(tile), w.values_t.row(0), padded_length, w.weights.row(at),
                         padded_length, rounded_up(tile_end, LANES), width);
                for (int64_t t = tile; t < tile_end; t++) {
                    const int64_t query_index = (row * heads + head) * length + t, seen = seen_by(t);
                    const int16_t* bits = p.has_dropout() ? w.draws.draw(query_index * length, seen) : nullptr;
                    grad_softmax(p, w.grad_scores.row(t - block), w.weights.row(t - block), t, normalisers[query_index],
                                 bits);
                    w.grad_scores.clear(t - block, seen);
                    w.weights.clear(t - block, seen);
                }
                multiply(w.grad_scores.rows_from(at), w.keys.row(0), padded_width, w.grad_queries.row(tile),
                         padded_width, padded_width, tile_end);
            }
            for (int64_t tile = 0; tile < block_end; tile += TILE) {  // a tile of keys
                const int64_t from = tile > block ? tile : block;     // the first query that sees one of them
                multiply(w.weights.transposed_from(from - block, tile), w.grad_output.row(from), padded_width,
                         w.grad_values.row(tile), padded_width, padded_width, block_end - from, true);
                multiply(w.grad_scores.transposed_from(from - block, tile), w.queries.row(from), padded_width,
                         w.grad_keys.row(tile), padded_width, padded_width, block_end - from, true);
            }
        }
        store_rows(p, w.grad_queries, p.stride(PARTS), rope, grad_qkv + p.start(row, PARTS, QUERY, head));
        store_rows(p, w.grad_keys, p.stride(PARTS), rope, grad_qkv + p.start(row, PARTS, KEY, head));
        store_rows(p, w.grad_values, p.stride(PARTS), nullptr, grad_qkv + p.start(row, PARTS, VALUE, head));
    });
}

}  // namespace

TINYLM_EXPORT(attention)
TINYLM_EXPORT(grad_attention)
