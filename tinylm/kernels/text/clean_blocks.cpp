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
constexpr int LANES = 8;                      // messages that are hashed side by side
typedef uint64_t Lanes __attribute__((vector_size(8 * LANES)));

template <int BITS>
inline void turn(Lanes& x) {
    x = x >> BITS | x << (64 - BITS);
}

inline void mix(Lanes& a, Lanes& b, Lanes& c, Lanes& d, const Lanes& x, const Lanes& y) {
    a += b + x, d ^= a, turn<32>(d);
    c += d, b ^= c, turn<24>(b);
    a += b + y, d ^= a, turn<16>(d);
    c += d, b ^= c, turn<63>(b);
}

template <int ROUND>
inline void rounds(Lanes* v, const Lanes* m) {
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

struct Message {
    int64_t at, size;  // within a text that has zeros up to a whole block after each message
    uint8_t* digest;
};

void hash_all(const uint8_t* text, const std::vector<Message>& messages) {
    const Message* own[LANES] = {};
    int64_t done[LANES];
    Lanes state[8], m[16], v[16];
    for (size_t next = 0, busy = 0;;) {
        Lanes counted = {}, last = {};
        for (int lane = 0; lane < LANES; ++lane) {
            if (!own[lane] && next < messages.size()) {
                own[lane] = &messages[next++], done[lane] = 0, ++busy;
                for (int i = 0; i < 8; ++i) state[i][lane] = START[i];
                state[0][lane] ^= 0x01010000 ^ DIGEST;
            }
            if (!own[lane]) continue;
            const uint8_t* block = text + own[lane]->at + done[lane];
            for (int i = 0; i < 16; ++i) std::memcpy(reinterpret_cast<uint64_t*>(m + i) + lane, block + 8 * i, 8);
            done[lane] = std::min(done[lane] + HASHED, own[lane]->size);
            counted[lane] = done[lane], last[lane] = done[lane] == own[lane]->size ? ~0ull : 0;
        }
        if (!busy) return;
        for (int i = 0; i < 8; ++i) v[i] = state[i], v[i + 8] = Lanes{} + START[i];
        v[12] ^= counted, v[14] ^= last;
        rounds<0>(v, m);
        for (int i = 0; i < 8; ++i) state[i] ^= v[i] ^ v[i + 8];
        for (int lane = 0; lane < LANES; ++lane) {
            if (!own[lane] || done[lane] < own[lane]->size) continue;
            uint64_t digest[2] = {state[0][lane], state[1][lane]};
            std::memcpy(own[lane]->digest, digest, DIGEST);
            own[lane] = nullptr, --busy;
        }
    }
}

// Put zeros after a message that ends at `end`, and return where the next one may begin.
uint8_t* close(uint8_t* start, uint8_t* end) {
    uint8_t* next = start + std::max<int64_t>((end - start + HASHED - 1) / HASHED, 1) * HASHED;
    std::memset(end, 0, next - end);
    return next;
}

bool is_plain(const uint8_t* text, int64_t size) {
    uint8_t other = 0;
    for (int64_t i = 0; i < size; ++i) other |= ((text[i] < 0x20) & (text[i] != '\n')) | (text[i] > 0x7e);
    return !other;
}

struct Tables {
    uint8_t lower[128], letter[128], escape[128];  // small; 1 for a letter or digit; what stands after a backslash
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

// Stories are end to end: story i is content[borders[i]:borders[i + 1]]. For each: sizes, the bytes of its line, 0 if
// it is empty and -1 if it is not plain; places, bare (16 bytes), words, bytes as in rows.CleanRow. Returns the bytes
// of all lines.
extern "C" int64_t tinylm_clean(const uint8_t* content, const int64_t* borders, int64_t count, const uint8_t* prefix,
                                int64_t prefix_size, uint8_t* lines, int64_t* sizes, uint64_t* places, uint8_t* bare,
                                int64_t* words, int64_t* bytes) {
    // of each story its words after the prefix, then its letters
    std::vector<uint8_t> hashed(2 * borders[count] + count * (prefix_size + 2 * HASHED));
    std::vector<uint8_t> keys(DIGEST * count);
    std::vector<Message> messages;
    uint8_t *out = lines, *kept = hashed.data();
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
        uint8_t *line = out, *key = kept, *spaced = key + prefix_size;
        std::memcpy(key, prefix, prefix_size);
        int64_t spaces = 0, gap = 0;
        for (const uint8_t* at = text; at < end; ++at) {
            const uint8_t c = *at == '\n' ? ' ' : *at;
            const int64_t space = c == ' ', further = space & gap;
            *spaced = c;
            spaced += 1 - further;
            spaces += space - further;
            gap = space;
        }
        words[i] = spaces + 1;
        kept = close(key, spaced);
        messages.push_back({key - hashed.data(), spaced - key, &keys[DIGEST * i]});
        std::memcpy(out, "{\"text\": \"", 10);
        out += 10;
        uint8_t* letters = kept;
        for (const uint8_t* at = text; at < end; ++at) {
            uint8_t c = *at, escaped = TABLES.escape[c];
            *out = '\\';
            out += escaped != 0;
            *out++ = escaped ? escaped : c;
            *kept = TABLES.lower[c];
            kept += TABLES.letter[c];
        }
        std::memcpy(out, "\"}\n", 3);
        out += 3;
        messages.push_back({letters - hashed.data(), kept - letters, bare + DIGEST * i});
        kept = close(letters, kept);
        sizes[i] = out - line;
        bytes[i] = end - text;
    }
    hash_all(hashed.data(), messages);
    for (int64_t i = 0; i < count; ++i) {
        std::memcpy(places + i, &keys[DIGEST * i], sizeof *places);
        places[i] = __builtin_bswap64(places[i]);
    }
    return out - lines;
}
