// rows.clean_row for stories of printable ASCII and line feeds; any other is left to the caller.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

// BLAKE2b without a key, digests of 16 bytes (RFC 7693).
constexpr uint64_t START[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
                               0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
constexpr uint8_t ORDER[12][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3}};
constexpr int64_t DIGEST = 16, HASHED = 128;  // bytes of a digest, of a block

inline uint64_t turned(uint64_t x, int bits) { return x >> bits | x << (64 - bits); }

inline void mix(uint64_t& a, uint64_t& b, uint64_t& c, uint64_t& d, uint64_t x, uint64_t y) {
    a += b + x;
    d = turned(d ^ a, 32);
    c += d;
    b = turned(b ^ c, 24);
    a += b + y;
    d = turned(d ^ a, 16);
    c += d;
    b = turned(b ^ c, 63);
}

template <int ROUND>
inline void rounds(uint64_t* v, const uint64_t* m) {
    constexpr const uint8_t* s = ORDER[ROUND];
    mix(v[0], v[4], v[8], v[12], m[s[0]], m[s[1]]);
    mix(v[1], v[5], v[9], v[13], m[s[2]], m[s[3]]);
    mix(v[2], v[6], v[10], v[14], m[s[4]], m[s[5]]);
    mix(v[3], v[7], v[11], v[15], m[s[6]], m[s[7]]);
    mix(v[0], v[5], v[10], v[15], m[s[8]], m[s[9]]);
    mix(v[1], v[6], v[11], v[12], m[s[10]], m[s[11]]);
    mix(v[2], v[7], v[8], v[13], m[s[12]], m[s[13]]);
    mix(v[3], v[4], v[9], v[14], m[s[14]], m[s[15]]);
    if constexpr (ROUND < 11) rounds<ROUND + 1>(v, m);
}

void compress(uint64_t* state, const uint8_t* block, uint64_t count, bool last) {
    uint64_t m[16], v[16];
    std::memcpy(m, block, HASHED);
    for (int i = 0; i < 8; ++i) v[i] = state[i], v[i + 8] = START[i];
    v[12] ^= count;
    if (last) v[14] = ~v[14];
    rounds<0>(v, m);
    for (int i = 0; i < 8; ++i) state[i] ^= v[i] ^ v[i + 8];
}

// `content` has HASHED bytes of room behind its end.
void hash(uint8_t* content, int64_t size, uint8_t* digest) {
    uint64_t state[8];
    std::memcpy(state, START, sizeof state);
    state[0] ^= 0x01010000 ^ DIGEST;
    std::memset(content + size, 0, HASHED);
    int64_t done = 0;
    for (; size - done > HASHED; done += HASHED) compress(state, content + done, done + HASHED, false);
    compress(state, content + done, size, true);
    std::memcpy(digest, state, DIGEST);
}

bool is_plain(const uint8_t* text, int64_t size) {
    uint8_t other = 0;
    for (int64_t i = 0; i < size; ++i) other |= (text[i] < 0x20 & text[i] != '\n') | (text[i] > 0x7e);
    return !other;
}

struct Tables {
    uint8_t lower[128], letter[128], escape[128];  // small; 1 for a letter or digit; what stands behind a backslash
    Tables() {
        for (int c = 0; c < 128; ++c) {
            bool large = c >= 'A' && c <= 'Z';
            lower[c] = large ? c + 32 : c;
            letter[c] = large || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
            escape[c] = c == '\\' || c == '"' ? c : c == '\n' ? 'n' : 0;
        }
    }
};
const Tables TABLES;

}  // namespace

// Stories lie end to end: story i is content[borders[i]:borders[i + 1]]. Of each: sizes, the bytes of its line, 0 where
// it is empty and -1 where it is not plain; places, bare (16 bytes), words, bytes as in rows.CleanRow. Returns the bytes
// of all lines.
extern "C" int64_t tinylm_clean(const uint8_t* content, const int64_t* borders, int64_t count, const uint8_t* prefix,
                                int64_t prefix_size, uint8_t* lines, int64_t* sizes, uint64_t* places, uint8_t* bare,
                                int64_t* words, int64_t* bytes) {
    int64_t longest = 0;
    for (int64_t i = 0; i < count; ++i) longest = std::max(longest, borders[i + 1] - borders[i]);
    std::vector<uint8_t> key(prefix_size + longest + HASHED), letters(longest + HASHED);
    std::memcpy(key.data(), prefix, prefix_size);
    uint8_t* out = lines;
    for (int64_t i = 0; i < count; ++i) {
        const uint8_t *text = content + borders[i], *end = content + borders[i + 1];
        if (!is_plain(text, end - text)) {
            sizes[i] = -1;
            continue;
        }
        while (text < end && (*text == ' ' || *text == '\n')) ++text;
        while (text < end && (end[-1] == ' ' || end[-1] == '\n')) --end;
        sizes[i] = 0;
        if (text == end) continue;
        uint8_t *line = out, *spaced = key.data() + prefix_size, *kept = letters.data();
        std::memcpy(out, "{\"text\": \"", 10);
        out += 10;
        int64_t spaces = 0;
        bool gap = false;
        for (const uint8_t* at = text; at < end; ++at) {
            uint8_t c = *at, escaped = TABLES.escape[c];
            *out = '\\';
            out += escaped != 0;
            *out++ = escaped ? escaped : c;
            bool space = c == ' ' || c == '\n';
            *spaced = space ? ' ' : c;
            spaced += !(space && gap);
            spaces += space && !gap;
            gap = space;
            *kept = TABLES.lower[c];
            kept += TABLES.letter[c];
        }
        std::memcpy(out, "\"}\n", 3);
        out += 3;
        uint8_t digest[DIGEST];
        hash(key.data(), spaced - key.data(), digest);
        uint64_t place;
        std::memcpy(&place, digest, sizeof place);
        places[i] = __builtin_bswap64(place);
        hash(letters.data(), kept - letters.data(), bare + DIGEST * i);
        sizes[i] = out - line;
        words[i] = spaces + 1;
        bytes[i] = end - text;
    }
    return out - lines;
}
