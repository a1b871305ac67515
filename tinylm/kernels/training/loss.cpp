// Softmax and cross-entropy of rows of logits, in place.
#include "numbers.h"

#include <cmath>

using namespace kernels;

extern "C" {

// logits (rows, words) <- softmax - one-hot(targets); nats (rows) of the targets
void tinylm_nats(Low* logits, const int64_t* targets, double* nats, int64_t rows, int64_t words, int64_t threads) {
#pragma omp parallel num_threads(threads)
    {
        std::vector<float> powers(words);
        float* power = powers.data();
#pragma omp for schedule(static)
        for (int64_t at = 0; at < rows; at++) {
            Low* row = logits + at * words;
            float top = -__builtin_inff(), total = 0, chosen = wide(row[targets[at]]);
#pragma omp simd reduction(max : top)
            for (int64_t i = 0; i < words; i++) top = wide(row[i]) > top ? wide(row[i]) : top;
#pragma omp simd reduction(+ : total)
            for (int64_t i = 0; i < words; i++) power[i] = exponential(wide(row[i]) - top), total += power[i];
            float share = 1 / total;
#pragma omp simd
            for (int64_t i = 0; i < words; i++) put(row[i], power[i] * share);
            put(row[targets[at]], power[targets[at]] * share - 1);
            nats[at] = double(top) - chosen + std::log(double(total));
        }
    }
}
}
