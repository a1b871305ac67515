// Words of a block of stories: numbered by their first occurrence, counted, then put in the order of their parts.
// The plain ASCII lines of a story file are read as they are; any other story comes as its words with spaces between.

#include <cstdint>
#include <cstring>
#include <vector>

namespace {

constexpr uint32_t EMPTY = ~0u;
constexpr int64_t ROOM = 8;  // bytes after a text that a word may be read from
const char HEAD[] = "{\"text\": \"", TAIL[] = "\"}";
constexpr int64_t HEAD_SIZE = sizeof HEAD - 1, TAIL_SIZE = sizeof TAIL - 1;

struct Slot {
    uint64_t hash;
    uint32_t word, size;
};

struct Words {
    uint8_t table[128];  // what each character becomes: 0 if it is deleted, 0xFF if its line is not done here
    int64_t longest;     // bytes of a word; what follows is another one
    uint32_t crc[256];
    std::vector<Slot> slots;
    std::vector<uint8_t> text, story;  // of all words, each with a space after it; of one story
    std::vector<uint32_t> starts, counts, numbers;

    void begin(const uint8_t* marks, int64_t count) {
        text.clear(), counts.clear(), numbers.clear();
        starts.assign(1, 0);
        slots.assign(slots.size(), {0, EMPTY, 0});
        for (int64_t i = 0; i < count; ++i) append(marks + 2 * i, 1);
    }

    uint32_t append(const uint8_t* word, int64_t size) {
        text.insert(text.end(), word, word + size);
        text.push_back(' ');
        starts.push_back(text.size());
        counts.push_back(0);
        return counts.size() - 1;
    }

    void grow() {
        std::vector<Slot> old(2 * slots.size(), Slot{0, EMPTY, 0});
        old.swap(slots);
        for (const Slot& slot : old) {
            if (slot.word == EMPTY) continue;
            uint64_t at = slot.hash & (slots.size() - 1);
            while (slots[at].word != EMPTY) at = (at + 1) & (slots.size() - 1);
            slots[at] = slot;
        }
    }

    static uint64_t hash_of(const uint8_t* word, int64_t size) {
        uint64_t hash = 0x9e3779b97f4a7c15 * (size + 1), piece;
        for (; size >= 8; word += 8, size -= 8) {
            std::memcpy(&piece, word, 8);
            hash = (hash ^ piece) * 0xff51afd7ed558ccd;
            hash ^= hash >> 32;
        }
        std::memcpy(&piece, word, 8);
        hash = (hash ^ (size ? piece << (64 - 8 * size) : 0)) * 0xff51afd7ed558ccd;
        return hash ^ hash >> 32;
    }

    void add(const uint8_t* word, int64_t size) {
        uint64_t hash = hash_of(word, size), at = hash & (slots.size() - 1);
        for (; slots[at].word != EMPTY; at = (at + 1) & (slots.size() - 1)) {
            uint32_t known = slots[at].word;
            if (slots[at].hash == hash && slots[at].size == size &&
                (size <= 8 || !std::memcmp(&text[starts[known]], word, size))) {  // 8 bytes have one hash each
                ++counts[known];
                numbers.push_back(known);
                return;
            }
        }
        slots[at] = {hash, append(word, size), static_cast<uint32_t>(size)};
        ++counts.back();
        numbers.push_back(slots[at].word);
        if (2 * counts.size() > slots.size()) grow();
    }

    void mark(uint32_t number) {
        ++counts[number];
        numbers.push_back(number);
    }

    // <sos> words <eos>; `words` has ROOM after its end.
    void add_story(const uint8_t* words, int64_t size, int64_t cut) {
        mark(0);
        const uint8_t* end = words + size;
        while (words < end) {
            const uint8_t* space = static_cast<const uint8_t*>(std::memchr(words, ' ', end - words));
            const uint8_t* stop = space ? space : end;
            for (; stop - words > cut; words += cut) add(words, cut);
            if (stop > words) add(words, stop - words);
            words = stop + 1;
        }
        mark(1);
    }

    // The text between the quotes of a line, its escapes undone, through the table; -1 if it is not plain.
    int64_t prepare(const uint8_t* body, int64_t size) {
        story.resize(size + ROOM);
        uint8_t* out = story.data();
        for (const uint8_t *at = body, *end = body + size; at < end; ++at) {
            uint8_t c = *at;
            if (c == '"' || c < 0x20 || c > 0x7e) return -1;
            if (c == '\\') {
                if (++at == end || (*at != 'n' && *at != '"' && *at != '\\')) return -1;
                c = *at == 'n' ? '\n' : *at;
            }
            uint8_t made = table[c];
            if (made == 0xFF) return -1;
            *out = made;
            out += made != 0;
        }
        return out - story.data();
    }

    uint32_t part_of(uint32_t word, uint32_t parts, uint32_t marks) const {
        if (word < marks) return parts;
        uint32_t sum = ~0u;
        for (uint32_t at = starts[word]; at < starts[word + 1]; ++at) sum = crc[(sum ^ text[at]) & 0xFF] ^ sum >> 8;
        return ~sum % parts;
    }
};

}  // namespace

extern "C" {

void* tinylm_words_new(const uint8_t* table, int64_t longest) {
    Words* words = new Words;
    std::memcpy(words->table, table, 128);
    words->longest = longest;
    words->slots.assign(1 << 15, {0, EMPTY, 0});
    for (uint32_t i = 0; i < 256; ++i) {
        uint32_t sum = i;
        for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320 : 0);
        words->crc[i] = sum;
    }
    return words;
}

// marks: words of one byte and a space, numbers 0, 1, ...; the first opens a story, the second ends it.
void tinylm_words_begin(Words* words, const uint8_t* marks, int64_t count) { words->begin(marks, count); }

// Lines from `at` on, as far as they are plain; returns where the first that is not plain begins, or the end.
int64_t tinylm_words_lines(Words* words, const uint8_t* content, int64_t size, int64_t at) {
    while (at < size) {
        const uint8_t* line = content + at;
        const void* found = std::memchr(line, '\n', size - at);
        int64_t length = found ? static_cast<const uint8_t*>(found) - line : size - at;
        int64_t body = length - HEAD_SIZE - TAIL_SIZE;
        if (body < 0 || std::memcmp(line, HEAD, HEAD_SIZE) || std::memcmp(line + length - TAIL_SIZE, TAIL, TAIL_SIZE))
            return at;
        int64_t made = words->prepare(line + HEAD_SIZE, body);
        if (made < 0) return at;
        words->add_story(words->story.data(), made, words->longest);
        at += length + (found != nullptr);
    }
    return at;
}

// A story of words separated by spaces, none of which is too long.
void tinylm_words_story(Words* words, const uint8_t* content, int64_t size) {
    words->story.assign(content, content + size);
    words->story.resize(size + ROOM);
    words->add_story(words->story.data(), size, size + 1);
}

// sizes: different words, bytes of them, words in the stream.
void tinylm_words_sizes(const Words* words, int64_t* sizes) {
    sizes[0] = words->counts.size();
    sizes[1] = words->text.size();
    sizes[2] = words->numbers.size();
}

// The words in the order of their parts, marks last: starts (n + 1), text, counts (n), borders (parts + 1), and the
// stream in these numbers, of 2 bytes each if n is at most 65,536, else of 4.
void tinylm_words_take(const Words* words, int64_t parts, int64_t marks, int32_t* starts, uint8_t* text,
                       int64_t* counts, int64_t* borders, void* numbers) {
    const int64_t count = words->counts.size();
    std::vector<uint32_t> part(count), place(count);
    std::vector<int64_t> next(parts + 2);
    for (int64_t i = 0; i < count; ++i) ++next[1 + (part[i] = words->part_of(i, parts, marks))];
    for (int64_t p = 0; p <= parts; ++p) next[p + 1] += next[p];
    std::memcpy(borders, next.data(), (parts + 1) * sizeof *borders);
    std::vector<uint32_t> word_at(count);
    for (int64_t i = 0; i < count; ++i) word_at[place[i] = next[part[i]]++] = i;
    int32_t end = starts[0] = 0;
    for (int64_t i = 0; i < count; ++i) {
        const uint32_t word = word_at[i], first = words->starts[word], size = words->starts[word + 1] - first;
        std::memcpy(text + end, &words->text[first], size);
        starts[i + 1] = end += size;
        counts[i] = words->counts[word];
    }
    const int64_t total = words->numbers.size();
    if (count <= 1 << 16) {
        uint16_t* out = static_cast<uint16_t*>(numbers);
        for (int64_t i = 0; i < total; ++i) out[i] = place[words->numbers[i]];
    } else {
        uint32_t* out = static_cast<uint32_t*>(numbers);
        for (int64_t i = 0; i < total; ++i) out[i] = place[words->numbers[i]];
    }
}
}
