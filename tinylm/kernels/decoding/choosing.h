// The largest of a row of logits and ln(sum(exp)), from pieces of the row that are read as they come.
#pragma once
#include <cfloat>

#include "products.h"

constexpr int64_t PIECE = 8 * PANEL;  // logits that are read together

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

template <class V> INLINE V larger(V one, V other) { return one > other ? one : other; }  // `other` where one is NaN

INLINE float top_of(F v) {  // in halves
    typedef float F8 __attribute__((vector_size(32)));
    typedef float F4 __attribute__((vector_size(16)));
    F8 eight[2];
    std::memcpy(eight, &v, sizeof v);
    F8 half = larger(eight[0], eight[1]);
    F4 four[2];
    std::memcpy(four, &half, sizeof half);
    F4 last = larger(four[0], four[1]);
    return std::max(std::max(last[0], last[1]), std::max(last[2], last[3]));
}

// Enter what belongs to the largest of z, whose ids begin at `first`.
inline void enter_all(const float* z, int64_t first, int64_t count, Best& best) {
    for (int64_t i = 0; i < count; i += PANEL) {
        const int64_t end = std::min(i + PANEL, count);
        if (end - i == PANEL && !best.takes(top_of(larger(load(z + i), load(z + i + LANES))))) continue;
        for (int64_t j = i; j < end; ++j)
            if (best.takes(z[j])) best.enter(z[j], first + j);
    }
}

inline int64_t pieces(int64_t vocab) { return (vocab + PIECE - 1) / PIECE; }

// Look at the piece that begins at id `first`; z holds a whole piece, of which the part past `vocab` is overwritten.
// Returns whether all are finite.
inline bool look(float* z, int64_t first, int64_t vocab, const Asked& asked, Best& best, Part& part) {
    const int64_t count = std::min(PIECE, vocab - first);
    for (int64_t i = count; i < PIECE; ++i) z[i] = -FLT_MAX;
    F tops = load(z), check = {};
    for (int64_t i = 0; i < PIECE; i += LANES) {
        tops = larger(load(z + i), tops);
        check += load(z + i) * 0.0f;
    }
    const float highest = top_of(tops);
    const bool finite = sum_of(check) == 0.0f;
    if (asked.log_sums) {
        F sum = {};
        for (int64_t i = 0; i < PIECE; i += LANES) sum += exp_of(load(z + i) - highest);
        part = {highest, sum_of(sum)};
    }
    const int64_t* end = asked.banned + asked.bans;
    for (const int64_t* id = std::lower_bound(asked.banned, end, first); id < end && *id < first + count; ++id)
        z[*id - first] = -INFINITY;
    if (best.takes(highest)) enter_all(z, first, count, best);
    return finite;
}

inline float log_sum(const Part* parts, int64_t count) {
    float highest = -INFINITY;
    for (int64_t i = 0; i < count; ++i) highest = std::max(highest, parts[i].highest);
    double sum = 0.0;
    for (int64_t i = 0; i < count; ++i) sum += parts[i].sum * std::exp(parts[i].highest - highest);
    return (float)(highest + std::log(sum));
}
