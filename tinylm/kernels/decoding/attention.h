// One head of one row over cached keys and values.
#pragma once
#include <memory>

#include "products.h"

template <class Slot> struct Head {
    const Slot *keys, *values;  // of a layer
    const int64_t* places;      // (seen) offset of each slot
    int64_t seen, next;         // slots, and distance from a slot to the next head's: read ahead
};

template <class Slot> INLINE void read_ahead(const Slot* from, int vectors) {
    for (size_t byte = 0; byte < vectors * LANES * sizeof(Slot); byte += 64)
        __builtin_prefetch((const char*)from + byte);
}

// softmax(q K^T / sqrt(Dh)) V; C vectors per head, 0 for any number.
template <int C, class Slot>
void attention(const Head<Slot>& head, const float* q, int64_t width, int any, float* to) {
    constexpr int most = C ? C : 64;
    const int vectors = C ? C : any;
    const int64_t seen = head.seen;
    alignas(64) float query[most * LANES] = {};
    const float scale = (float)(1.0 / std::sqrt((double)width));
    for (int64_t i = 0; i < width; ++i) query[i] = q[i] * scale;
    std::unique_ptr<float[]> long_scores;
    alignas(64) float short_scores[512];
    float* scores = short_scores;
    if (seen + LANES > 512) scores = (long_scores.reset(new float[seen + LANES]), long_scores.get());
    float highest = -INFINITY;
    for (int64_t slot = 0; slot < seen; ++slot) {
        const Slot* key = head.keys + head.places[slot];
        F sum = {};
        for (int v = 0; v < vectors; ++v) sum += load(query + v * LANES) * load(key + v * LANES);
        read_ahead(key + head.next, vectors);
        scores[slot] = sum_of(sum);
        highest = std::max(highest, scores[slot]);
    }
    for (int64_t slot = seen; slot % LANES; ++slot) scores[slot] = -INFINITY;
    F total = {};
    for (int64_t slot = 0; slot < seen; slot += LANES) {
        F score = load(scores + slot), weight = exp_of(score - highest);
        weight = score == -INFINITY ? F{} : weight;
        std::memcpy(scores + slot, &weight, sizeof weight);
        total += weight;
    }
    F sums[most] = {};
    for (int64_t slot = 0; slot < seen; ++slot) {
        const Slot* value = head.values + head.places[slot];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) sums[v] += load(value + v * LANES) * scores[slot];
        read_ahead(value + head.next, vectors);
    }
    const float inverse = 1.0f / sum_of(total);
    alignas(64) float result[most * LANES];  // a copy: sums that are indexed later would not stay in registers
    std::memcpy(result, sums, vectors * sizeof(F));
    for (int64_t i = 0; i < width; ++i) to[i] = result[i] * inverse;
}
