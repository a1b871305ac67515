// Adam's step and the sum of squares of gradients, each in one pass (tinylm/train/optimizers.py has the formulas).

#include <cmath>
#include <cstdint>

extern "C" {

struct Rates {
    float lr, beta1, beta2, eps, decay;  // lr and eps as in the formula below
    float scale;                         // 1 / (1 - beta2^t)
    int32_t decoupled;
};

// m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  p -= lr m / (sqrt(scale v) + eps), with weight decay before it
void tinylm_adam(float* parameter, const float* grad, float* first, float* second, const Rates* rates, int64_t size,
                 int64_t threads) {
    const Rates r = *rates;
    const float shrunk = r.decoupled ? 1 - r.decay : 1, added = r.decoupled ? 0 : r.decay;
    const float rest1 = 1 - r.beta1, rest2 = 1 - r.beta2;
#pragma omp parallel for simd num_threads(threads) schedule(static)
    for (int64_t i = 0; i < size; i++) {
        float g = grad[i] + added * parameter[i];
        float m = first[i] + rest1 * (g - first[i]), v = r.beta2 * second[i] + rest2 * g * g;
        first[i] = m, second[i] = v;
        parameter[i] = shrunk * parameter[i] - r.lr * m / (std::sqrt(r.scale * v) + r.eps);
    }
}

constexpr int64_t PIECE = 1 << 14;

// squares[k]: the sum of squares of piece k
void tinylm_squares(const float* x, double* squares, int64_t size, int64_t threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t piece = 0; piece < (size + PIECE - 1) / PIECE; piece++) {
        int64_t end = (piece + 1) * PIECE < size ? (piece + 1) * PIECE : size;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = piece * PIECE; i < end; i++) sum += double(x[i]) * x[i];
        squares[piece] = sum;
    }
}
}
