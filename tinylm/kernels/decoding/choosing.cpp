// From logits to tokens: the likeliest ones, or one that is drawn.
#include "choosing.h"
#include "team.h"

// Compute what is asked of each row of logits (rows, V).  Returns whether all of these are finite.
extern "C" int64_t tinylm_largest(const float* logits, int64_t rows, int64_t vocab, const Asked* asked,
                                  int64_t threads) {
    std::atomic<int64_t> finite{1};
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
        Best best{asked->values + row * asked->k, asked->ids + row * asked->k, asked->k};
        std::unique_ptr<Part[]> parts(new Part[pieces(vocab)]);
        float z[PIECE];
        for (int64_t piece = 0; piece < pieces(vocab); ++piece) {
            const int64_t first = piece * PIECE;
            std::copy_n(logits + row * vocab + first, std::min(PIECE, vocab - first), z);
            if (!look(z, first, vocab, *asked, best, parts[piece])) finite = 0;
        }
        if (asked->log_sums) asked->log_sums[row] = log_sum(parts.get(), pieces(vocab));
    }
    return finite;
}

// Inverse-CDF sampling from softmax(logits / temperature): the first index whose cumulative weight exceeds u times the
// sum, in each row; weights in float32, sums in float64.  -inf weighs nothing.
extern "C" void tinylm_draw(const float* logits, int64_t rows, int64_t vocab, const double* u, double temperature,
                            int64_t* tokens, int64_t threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
        const float* z = logits + row * vocab;
        const int64_t blocks = (vocab + PANEL - 1) / PANEL;
        std::unique_ptr<float[]> weights = floats(blocks * PANEL);
        std::unique_ptr<double[]> sums(new double[blocks]);
        float highest = -INFINITY;
#pragma omp simd reduction(max : highest)
        for (int64_t i = 0; i < vocab; ++i) highest = std::max(highest, z[i]);
        const float inverse = (float)(1.0 / temperature);
        double total = 0.0;
        for (int64_t block = 0; block < blocks; ++block) {
            F sum = {};
            for (int64_t i = block * PANEL; i < (block + 1) * PANEL; i += LANES) {
                alignas(64) float last[LANES];
                if (i + LANES > vocab)
                    for (int lane = 0; lane < LANES; ++lane) last[lane] = i + lane < vocab ? z[i + lane] : -INFINITY;
                F distance = (i + LANES > vocab ? load(last) : load(z + i)) - highest;
                F weight = exp_of(distance * inverse);
                weight = distance * inverse < -87.0f ? F{} : weight;
                std::memcpy(weights.get() + i, &weight, sizeof weight);
                sum += weight;
            }
            total += sum_of(sum);
            sums[block] = total;
        }
        const double wanted = u[row] * total;
        int64_t block = std::upper_bound(sums.get(), sums.get() + blocks, wanted) - sums.get();
        double reached = block ? sums[block - 1] : 0.0;
        int64_t token = block * PANEL, end = std::min(token + PANEL, vocab), possible = token;
        for (; token < end; ++token) {
            reached += weights[token];
            if (weights[token] > 0.0f) possible = token;
            if (reached > wanted) break;
        }
        tokens[row] = token < end ? token : possible;  // rounding may leave the block's sum just short
    }
}

// Returns whether the sum of all numbers is finite: no infinity and no NaN among them.
extern "C" int64_t tinylm_finite(const float* values, int64_t count, int64_t threads) {
    float sum = 0.0f;
#pragma omp parallel for simd num_threads(threads) reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) sum += values[i];
    return std::isfinite(sum);
}
