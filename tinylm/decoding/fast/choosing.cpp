// From logits to tokens: the likeliest ones, or one that is drawn.
#include "products.h"
#include "team.h"

// The k largest of each row of logits (rows, V) and their ids, best first, ties to the lower id, `banned` ids left out;
// log_sums: ln(sum(exp(logits))) of each row with the banned ones, or null.  Whether all of these are finite.
extern "C" int64_t tinylm_largest(float* logits, int64_t rows, int64_t vocab, int64_t k, const int64_t* banned,
                                  int64_t bans, float* values, int64_t* ids, float* log_sums, int64_t threads) {
    std::atomic<int64_t> finite{1};
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
        float* z = logits + row * vocab;
        std::unique_ptr<float[]> kept(new float[bans + 1]);
        for (int64_t b = 0; b < bans; ++b) kept[b] = z[banned[b]];
        for (int64_t b = 0; b < bans; ++b) z[banned[b]] = -INFINITY;
        float* best = values + row * k;
        int64_t *names = ids + row * k, found = 0, i = 0;
        auto enter = [&](int64_t id) {
            int64_t place = found < k ? found++ : k - 1;
            for (; place > 0 && best[place - 1] < z[id]; --place) {
                best[place] = best[place - 1];
                names[place] = names[place - 1];
            }
            best[place] = z[id];
            names[place] = id;
        };
        for (; i < k; ++i) enter(i);
        for (; i < vocab; i += PANEL) {
            int64_t end = std::min(i + PANEL, vocab);
            float threshold = best[k - 1], top = -INFINITY;
#pragma omp simd reduction(max : top)
            for (int64_t j = i; j < end; ++j) top = std::max(top, z[j]);
            if (top > threshold)
                for (int64_t j = i; j < end; ++j)
                    if (z[j] > best[k - 1]) enter(j);
        }
        float highest = best[0];
        for (int64_t b = 0; b < bans; ++b) {
            z[banned[b]] = kept[b];
            highest = std::max(highest, kept[b]);
        }
        if (!log_sums) continue;
        F total = {};
        for (i = 0; i + LANES <= vocab; i += LANES) total += exp_of(load(z + i) - highest);
        double sum = sum_of(total);
        for (; i < vocab; ++i) sum += std::exp(z[i] - highest);
        log_sums[row] = (float)(highest + std::log(sum));
        if (!std::isfinite(log_sums[row])) finite = 0;
    }
    return finite;
}

// Inverse-CDF sampling from softmax(logits / temperature): the first index whose cumulated weight exceeds u times the
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

// Whether the sum of all numbers is finite: no infinity and no NaN among them.
extern "C" int64_t tinylm_finite(const float* values, int64_t count, int64_t threads) {
    float sum = 0.0f;
#pragma omp parallel for simd num_threads(threads) reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) sum += values[i];
    return std::isfinite(sum);
}
