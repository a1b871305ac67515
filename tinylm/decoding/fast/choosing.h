// The largest of a row of logits and ln(sum(exp)), from pieces of the row that are looked at as they come.
#pragma once
#include "products.h"

constexpr int64_t PIECE = 8 * PANEL;  // logits that are looked at together

struct Asked {
    int64_t k;              // how many of the largest; 0 asks for the logits themselves
    const int64_t* banned;  // ascending; left out of the largest, not of the sum
    int64_t bans;
    float* values;    // (rows, k) best first, ties to the lower id
    int64_t* ids;     // (rows, k)
    float* log_sums;  // (rows) or null
};

struct Best {  // the largest so far; ids must come ascending
    float* values;
    int64_t* ids;
    int64_t k, found = 0;

    bool takes(float value) const { return found < k || value > values[k - 1]; }
    void enter(float value, int64_t id) {
        int64_t place = found < k ? found++ : k - 1;
        for (; place > 0 && values[place - 1] < value; --place) {
            values[place] = values[place - 1];
            ids[place] = ids[place - 1];
        }
        values[place] = value;
        ids[place] = id;
    }
};

struct Part {  // of one piece: its largest logit, and the sum of exp(z - highest)
    float highest, sum;
};

inline int64_t pieces(int64_t vocab) { return (vocab + PIECE - 1) / PIECE; }

// Look at the piece that begins at id `first`; z holds a whole piece, of which what is past `vocab` is overwritten.
// Whether all is finite.
inline bool look(float* z, int64_t first, int64_t vocab, const Asked& asked, Best& best, Part& part) {
    const int64_t count = std::min(PIECE, vocab - first);
    for (int64_t i = count; i < PIECE; ++i) z[i] = -INFINITY;
    float highest = -INFINITY, check = 0.0f;
#pragma omp simd reduction(max : highest)
    for (int64_t i = 0; i < count; ++i) highest = std::max(highest, z[i]);
#pragma omp simd reduction(+ : check)
    for (int64_t i = 0; i < count; ++i) check += z[i] * 0.0f;
    if (asked.log_sums) {
        F sum = {};
        for (int64_t i = 0; i < count; i += LANES) sum += exp_of(load(z + i) - highest);
        part = {highest, sum_of(sum)};
    }
    const int64_t* end = asked.banned + asked.bans;
    for (const int64_t* id = std::lower_bound(asked.banned, end, first); id < end && *id < first + count; ++id)
        z[*id - first] = -INFINITY;
    if (!best.takes(highest)) return check == 0.0f;
    for (int64_t i = 0; i < count; i += PANEL) {
        float top = -INFINITY;
#pragma omp simd reduction(max : top)
        for (int64_t j = i; j < i + PANEL; ++j) top = std::max(top, z[j]);
        if (best.takes(top))
            for (int64_t j = i; j < std::min(i + PANEL, count); ++j)
                if (best.takes(z[j])) best.enter(z[j], first + j);
    }
    return check == 0.0f;
}

inline float log_sum(const Part* parts, int64_t count) {
    float highest = -INFINITY;
    for (int64_t i = 0; i < count; ++i) highest = std::max(highest, parts[i].highest);
    double sum = 0.0;
    for (int64_t i = 0; i < count; ++i) sum += parts[i].sum * std::exp(parts[i].highest - highest);
    return (float)(highest + std::log(sum));
}
