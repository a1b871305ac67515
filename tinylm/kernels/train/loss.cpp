// Softmax and cross-entropy of rows of logits, in place.
#include "numbers.h"

#include <cmath>

using namespace kernels;

namespace {

// Overwrites logits (rows, words) so that factors (rows) * logits is softmax - one-hot(targets). losses (rows): in nats.
// Rows are not multiplied by their factors here, since that would take another pass over memory.
template <class Number>
void softmax_gradient(Number* logits, const int64_t* targets, float* factors, double* losses, int64_t rows, int64_t words,
          int64_t threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t at = 0; at < rows; at++) {
        Number* row = logits + at * words;
        float largest = -__builtin_inff(), total = 0, chosen = to_float(row[targets[at]]);
#pragma omp simd reduction(max : largest)
        for (int64_t i = 0; i < words; i++) largest = to_float(row[i]) > largest ? to_float(row[i]) : largest;
#pragma omp simd reduction(+ : total)
        for (int64_t i = 0; i < words; i++) {
            float power = exponential(to_float(row[i]) - largest);
            store(row[i], power);
            total += power;
        }
        store(row[targets[at]], exponential(chosen - largest) - total);
        factors[at] = 1 / total;
        losses[at] = double(largest) - chosen + std::log(double(total));
    }
}

}  // namespace

TINYLM_EXPORT(softmax_gradient)
