// What the kernels share: bfloat16 as bits, e^x, and the random numbers of dropout.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

// Exports a kernel, a template over its type of numbers, as a table of two functions: for bfloat16, then for float.
#define TINYLM_EXPORT(name) \
    extern "C" void* const tinylm_##name[] = {reinterpret_cast<void*>(name<kernels::bf16>), reinterpret_cast<void*>(name<float>)};

namespace kernels {

using bf16 = uint16_t;  // the bits of a bfloat16

inline float to_float(bf16 x) { return __builtin_bit_cast(float, uint32_t(x) << 16); }
inline float to_float(float x) { return x; }

// Rounds to nearest, ties to even, as torch does. The NaNs that arithmetic produces stay NaN.
inline void store(bf16& to, float x) {
    uint32_t bits = __builtin_bit_cast(uint32_t, x);
    to = bf16((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline void store(float& to, float x) { to = x; }

constexpr float EXP_MIN = -87.0f;  // below it e^x is taken as zero

// e^x for x <= 88, with a relative error of 3e-7: 2^n e^r, where x = n ln 2 + r, |r| <= ln 2 / 2 and e^r is a series.
inline float exponential(float x) {
    constexpr float ROUND = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number, in the lowest bits
    float clamped = x < EXP_MIN ? EXP_MIN : x;  // NaN stays
    float scaled = clamped * 1.44269504f + ROUND, n = scaled - ROUND;
    float r = clamped - n * 0.693145752f - n * 1.42860677e-6f;  // ln 2 in two parts, as one float has too few digits
    float series = 1.0f + r * (1.0f + r * (0.5f + r * (1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r * (1.0f / 720))))));
    uint32_t whole = __builtin_bit_cast(uint32_t, scaled) - 0x4b400000u;  // the bits of ROUND
    float power = __builtin_bit_cast(float, (whole + 127) << 23);
    return x < EXP_MIN ? 0.0f : series * power;
}

// One word of a seed's random stream, computed without those before it: SplitMix64 (Steele, Lea and Flood 2014).
inline uint64_t random_word(uint64_t seed, uint64_t index) {
    uint64_t x = seed + (index + 1) * 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

// Dropout draws a signed 16-bit number for each element and keeps those that reach `level` (dropout.py computes it).
struct Draws {
    using Word = uint64_t __attribute__((may_alias));
    uint64_t seed;
    int16_t level;
    std::vector<int16_t> bits;  // 8 more, since the first and the last word may be used in part

    Draws(uint64_t seed, int64_t level, int64_t most) : seed(seed), level(int16_t(level)), bits(most + 8) {}

    // The random numbers of elements first .. first + count - 1.
    const int16_t* draw(int64_t first, int64_t count) {
        int64_t from = first / 4, many = (first + count + 3) / 4 - from;
        Word* words = reinterpret_cast<Word*>(bits.data());
        for (int64_t i = 0; i < many; i++) words[i] = random_word(seed, from + i);
        return bits.data() + first % 4;
    }
};

}  // namespace kernels
