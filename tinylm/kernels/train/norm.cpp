// Norms over rows of numbers, and their gradients (tinylm/kernels/train/norm.py has the formulas).
#include "numbers.h"

#include <cmath>

using namespace kernels;

namespace {

enum Kind : int64_t { LAYER, RMS, STD };  // in the order of KINDS in norm.py

// y = normed * gain + bias, normed = (x - mean) * inverse. bias may be null. factors (rows, 2): inverse and k.
template <class Number>
void norm(const float* x, const float* gain, const float* bias, Number* y, float* normed, float* factors, float eps,
          int64_t kind, int64_t rows, int64_t width, int64_t threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        const float* from = x + row * width;
        float* n = normed + row * width;
        Number* to = y + row * width;
        float sum = 0, squares = 0;
        if (kind != RMS) {
#pragma omp simd reduction(+ : sum)
            for (int64_t i = 0; i < width; i++) sum += from[i];
        }
        const float mean = sum / width;
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < width; i++) squares += (from[i] - mean) * (from[i] - mean);
        float inverse = 1 / std::sqrt(squares / width + eps), k = 1;
        if (kind == STD) {
            const float deviation = std::sqrt(squares / (width - 1));
            inverse = 1 / (deviation + eps);
            k = (deviation + eps) * width / ((width - 1) * (deviation > 1e-37f ? deviation : 1e-37f));
        }
        factors[2 * row] = inverse;
        factors[2 * row + 1] = k;
#pragma omp simd
        for (int64_t i = 0; i < width; i++) {
            n[i] = (from[i] - mean) * inverse;
            store(to[i], n[i] * gain[i] + (bias ? bias[i] : 0.0f));
        }
    }
}

// grad_x, and partial sums of the gradients of gain and bias, (parts, width) each: dy for each `part_rows` rows.
template <class Number>
void grad_norm(const Number* grad, const float* normed, const float* factors, const float* gain, float* grad_x,
               float* grad_gain, float* grad_bias, int64_t kind, int64_t rows, int64_t width, int64_t part_rows,
               int64_t threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t part = 0; part < (rows + part_rows - 1) / part_rows; part++) {
        float *gains = grad_gain + part * width, *biases = grad_bias + part * width;
        for (int64_t i = 0; i < width; i++) gains[i] = biases[i] = 0;
        const int64_t end = std::min((part + 1) * part_rows, rows);
        for (int64_t row = part * part_rows; row < end; row++) {
            const Number* g = grad + row * width;
            const float* n = normed + row * width;
            float* to = grad_x + row * width;
            float sum = 0, projection = 0;
#pragma omp simd reduction(+ : sum, projection)
            for (int64_t i = 0; i < width; i++) {
                const float dy = to_float(g[i]), scaled = dy * gain[i];
                gains[i] += dy * n[i];
                biases[i] += dy;
                sum += scaled;
                projection += scaled * n[i];
            }
            const float mean = kind == RMS ? 0 : sum / width;
            const float share = projection / width * factors[2 * row + 1], inverse = factors[2 * row];
#pragma omp simd
            for (int64_t i = 0; i < width; i++) to[i] = (to_float(g[i]) * gain[i] - mean - n[i] * share) * inverse;
        }
    }
}

}  // namespace

TINYLM_EXPORT(norm)
TINYLM_EXPORT(grad_norm)
