// Normalisation of rows, forward and backward (tinylm/kernels/train/norm.py has the formulas).
#include "numbers.h"

#include <cmath>

using namespace kernels;

namespace {

constexpr int64_t PARTS = 16;  // sums over rows are taken in this many parts, for any number of threads

enum Kind { LAYER, RMS, STD };

template <class T>
void normalise(const float* x, const float* gain, const float* bias, T* normed, T* y, float* inverse, float* stretch,
               float eps, Kind kind, int64_t rows, int64_t width, int64_t threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t at = 0; at < rows; at++) {
        const float* in = x + at * width;
        T *n = normed + at * width, *out = y + at * width;
        float mean = 0, square = 0;
        if (kind != RMS) {
#pragma omp simd reduction(+ : mean)
            for (int64_t i = 0; i < width; i++) mean += in[i];
            mean /= width;
        }
#pragma omp simd reduction(+ : square)
        for (int64_t i = 0; i < width; i++) square += (in[i] - mean) * (in[i] - mean);
        float turned;
        if (kind == STD) {
            float std = std::sqrt(square / (width - 1));
            turned = 1 / (std + eps);
            stretch[at] = (std + eps) * width / (width - 1) / (std > 1.17549435e-38f ? std : 1.17549435e-38f);
        } else {
            turned = 1 / std::sqrt(square / width + eps);
        }
        inverse[at] = turned;
        if (bias) {
#pragma omp simd
            for (int64_t i = 0; i < width; i++) {
                put(n[i], (in[i] - mean) * turned);
                put(out[i], wide(n[i]) * gain[i] + bias[i]);
            }
        } else {
#pragma omp simd
            for (int64_t i = 0; i < width; i++) {
                put(n[i], (in[i] - mean) * turned);
                put(out[i], wide(n[i]) * gain[i]);
            }
        }
    }
}

template <class T>
void backward(const T* grad, const T* normed, const float* inverse, const float* stretch, const float* gain,
              float* by_x, float* by_gain, float* by_bias, Kind kind, int64_t rows, int64_t width, int64_t threads) {
    std::vector<float> sums(2 * PARTS * width);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t part = 0; part < PARTS; part++) {
        float *of_gain = &sums[2 * part * width], *of_bias = of_gain + width;
        for (int64_t at = rows * part / PARTS; at < rows * (part + 1) / PARTS; at++) {
            const T *g = grad + at * width, *n = normed + at * width;
            float* out = by_x + at * width;
            float mean = 0, along = 0;
#pragma omp simd reduction(+ : mean, along)
            for (int64_t i = 0; i < width; i++) {
                float d = wide(g[i]), own = d * gain[i];
                of_gain[i] += d * wide(n[i]);
                of_bias[i] += d;
                mean += own;
                along += own * wide(n[i]);
            }
            mean = kind == RMS ? 0 : mean / width;
            along = along / width * (kind == STD ? stretch[at] : 1.0f);
            float turned = inverse[at];
#pragma omp simd
            for (int64_t i = 0; i < width; i++) out[i] = (wide(g[i]) * gain[i] - mean - wide(n[i]) * along) * turned;
        }
    }
    for (int64_t i = 0; i < width; i++) {
        float of_gain = 0, of_bias = 0;
        for (int64_t part = 0; part < PARTS; part++) {
            of_gain += sums[2 * part * width + i];
            of_bias += sums[(2 * part + 1) * width + i];
        }
        by_gain[i] = of_gain;
        if (by_bias) by_bias[i] = of_bias;
    }
}

}  // namespace

extern "C" {

// y = n * gain + bias of each row of x (rows, width); normed and y are bfloat16 where `low`, else float32.
void tinylm_normalise(const float* x, const float* gain, const float* bias, void* normed, void* y, float* inverse,
                      float* stretch, float eps, int64_t kind, int64_t low, int64_t rows, int64_t width,
                      int64_t threads) {
    if (low)
        normalise(x, gain, bias, static_cast<Low*>(normed), static_cast<Low*>(y), inverse, stretch, eps, Kind(kind),
                  rows, width, threads);
    else
        normalise(x, gain, bias, static_cast<float*>(normed), static_cast<float*>(y), inverse, stretch, eps,
                  Kind(kind), rows, width, threads);
}

// The gradients of x, gain and bias (if there is one) from that of y.
void tinylm_normalise_back(const void* grad, const void* normed, const float* inverse, const float* stretch,
                           const float* gain, float* by_x, float* by_gain, float* by_bias, int64_t kind, int64_t low,
                           int64_t rows, int64_t width, int64_t threads) {
    if (low)
        backward(static_cast<const Low*>(grad), static_cast<const Low*>(normed), inverse, stretch, gain, by_x, by_gain,
                 by_bias, Kind(kind), rows, width, threads);
    else
        backward(static_cast<const float*>(grad), static_cast<const float*>(normed), inverse, stretch, gain, by_x,
                 by_gain, by_bias, Kind(kind), rows, width, threads);
}
}
