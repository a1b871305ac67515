// Tokens in, logits out: a decoder-only transformer over a cache of fixed size, all rows of a step in one call.
//
// A row is one token of one sequence: a step of B sequences has B rows, a prompt as many as it has tokens. Keys and
// values of sequence b's slot s are in the cache's row table[b][s], so beams share what they have in common.
#pragma once
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "attention.h"
#include "choosing.h"
#include "team.h"

struct Norm {
    const float *gain, *bias;  // bias or null
};

struct Block {
    Norm norm1, norm2;
    Linear qkv, out, up, down;
};

struct Model {
    int64_t precision, layers, width, heads, inner, slot_width, feed_forward, vocab, pre, norm_kind, gelu;
    float norm_eps, input_scale, output_factor;
    int64_t last_norm;
    const int64_t* head_starts;  // (H + 1)
    const float *embedding, *positions, *turns;  // turns: (T, 2, Dh / 2) cosines and sines, or null
    const Block* blocks;
    Norm final_norm;
    Linear output;
    const float* output_rows;  // int8: the output layer's weights as they are, (V, D)
};

struct Step {
    int64_t rows, outputs, cache_rows, capacity, threads;
    const int64_t *tokens, *positions, *sequences;  // (rows)
    const int64_t* wanted;                          // (outputs) rows whose logits are asked for
    const int32_t* table;                           // (sequences, capacity)
    void *keys, *values;                            // (layers, cache_rows, H, capacity, slot_width) Kind::Slot
    float* logits;                                  // (outputs, V)
    Asked asked;                                    // instead of logits, of each output
};

template <class Kind> class Pass {  // what the threads share
  public:
    Pass(const Model& model, const Step& step)
        : team(step.threads), m(model), s(step), x(floats(s.rows * m.width)), normed(floats(s.rows * m.width)),
          qkv(floats(s.rows * 3 * m.inner)), mixed(floats(s.rows * m.inner)), up(floats(s.rows * m.feed_forward)),
          places(new int64_t[s.rows * s.capacity]), parts(new Part[s.outputs * pieces(m.vocab)]),
          bests(new Best[s.threads * s.outputs]), kept(s.asked.k + AGAIN),
          near(floats(s.threads * s.outputs * kept)), near_ids(new int64_t[s.threads * s.outputs * kept]),
          input(new uint32_t[s.rows * std::max({m.width, m.inner, m.feed_forward}) + PANEL]), units(new Unit[s.rows]) {}

    Team team;
    std::atomic<int64_t> finite{1};  // what is asked of logits: whether all were

    void run(int64_t thread) {
        each_row(thread, [&](int64_t row) { embed(row); });
        for (int64_t layer = 0; layer < m.layers; ++layer) {
            const Block& b = m.blocks[layer];
            each_row(thread, [&](int64_t row) { ready<Qkv>(m.pre ? norm(b.norm1, row) : x_of(row), m.width, row); });
            multiply<Qkv>(thread, b.qkv, s.rows, qkv.get(), After::store);
            each_row(thread, [&](int64_t row) { remember(layer, row); });
            share(thread, s.rows * m.heads, [&](int64_t i) { attend(layer, i / m.heads, i % m.heads); });
            team.wait();
            each_row(thread, [&](int64_t row) { ready(mixed.get() + row * m.inner, m.inner, row); });
            multiply(thread, b.out, s.rows, x.get(), After::add);
            each_row(thread, [&](int64_t row) {
                if (!m.pre) std::copy_n(norm(b.norm1, row), m.width, x_of(row));
                ready(m.pre ? norm(b.norm2, row) : x_of(row), m.width, row);
            });
            multiply(thread, b.up, s.rows, up.get(), m.gelu ? After::gelu : After::relu);
            each_row(thread, [&](int64_t row) { ready(up.get() + row * m.feed_forward, m.feed_forward, row); });
            multiply(thread, b.down, s.rows, x.get(), After::add);
            if (!m.pre) each_row(thread, [&](int64_t row) { std::copy_n(norm(b.norm2, row), m.width, x_of(row)); });
        }
        share(thread, s.outputs, [&](int64_t out) {
            int64_t row = s.wanted[out];
            if (m.last_norm) norm(m.final_norm, row);
            for (int64_t i = 0; i < m.width; ++i) last_of(out)[i] *= m.output_factor;
            ready(last_of(out), m.width, out);
        });
        team.wait();
        if (s.asked.k) return choose(thread);
        multiply(thread, m.output, s.outputs, s.logits, After::store);
        if constexpr (AGAIN) share(thread, s.outputs, [&](int64_t out) { again(out, s.logits + out * m.vocab); });
    }

  private:
    static constexpr bool WHOLE = std::is_same_v<Kind, Int8>;
    static constexpr int64_t AGAIN = WHOLE ? 2 : 0;         // so many of the largest logits in fp32
    typedef std::conditional_t<WHOLE, Bf16, Kind> Qkv;      // of queries, keys and values
    typedef std::pair<float, int64_t> Scored;  // minus a logit, and its id: ascending is best first, ties to the lower id

    template <class Work> void share(int64_t thread, int64_t count, Work work) {
        for (int64_t i = count * thread / team.threads; i < count * (thread + 1) / team.threads; ++i) work(i);
    }
    template <class Work> void each_row(int64_t thread, Work work) {
        share(thread, s.rows, work);
        team.wait();
    }
    float* x_of(int64_t row) { return x.get() + row * m.width; }
    float* last_of(int64_t out) { return (m.last_norm ? normed.get() : x.get()) + s.wanted[out] * m.width; }

    void embed(int64_t row) {
        const float* vector = m.embedding + s.tokens[row] * m.width;
        for (int64_t slot = 0; slot <= s.positions[row]; ++slot)
            places[row * s.capacity + slot] =
                (s.table[s.sequences[row] * s.capacity + slot] * m.heads * s.capacity + slot) * m.slot_width;
        const float* place = m.positions ? m.positions + s.positions[row] * m.width : nullptr;
        for (int64_t i = 0; i < m.width; ++i) x_of(row)[i] = vector[i] * m.input_scale + (place ? place[i] : 0.0f);
    }

    float* norm(const Norm& n, int64_t row) {
        const float* from = x_of(row);
        float* to = normed.get() + row * m.width;
        float mean = 0.0f, square = 0.0f;
        if (m.norm_kind != 1) {
#pragma omp simd reduction(+ : mean)
            for (int64_t i = 0; i < m.width; ++i) mean += from[i];
            mean /= m.width;
        }
#pragma omp simd reduction(+ : square)
        for (int64_t i = 0; i < m.width; ++i) square += (from[i] - mean) * (from[i] - mean);
        float inverse = m.norm_kind == 2 ? 1.0f / (std::sqrt(square / (m.width - 1)) + m.norm_eps)
                                         : 1.0f / std::sqrt(square / m.width + m.norm_eps);
        for (int64_t i = 0; i < m.width; ++i)
            to[i] = (from[i] - mean) * inverse * n.gain[i] + (n.bias ? n.bias[i] : 0.0f);
        return to;
    }

    template <class In = Kind> static int64_t words(int64_t count) {
        constexpr int64_t group = std::is_same_v<In, Fp32> ? 1 : std::is_same_v<In, Bf16> ? 2 : 4;
        return (count + group - 1) / group;
    }

    static INLINE int32_t nearest(float x) { return bits<int32_t>(x + 12582912.0f) - 0x4b400000; }  // even of two

    template <class In = Kind>
    void ready(const float* from, int64_t count, int64_t row) {  // round a row to the inputs of a product
        uint32_t* to = input.get() + row * words<In>(count);
        if constexpr (std::is_same_v<In, Fp32>) {
            std::memcpy(to, from, count * sizeof(float));
        } else if constexpr (std::is_same_v<In, Bf16>) {
            to[words<In>(count) - 1] = 0;
            uint16_t* halves = reinterpret_cast<uint16_t*>(to);
            for (int64_t i = 0; i < count; ++i) {
                uint32_t word = bits<uint32_t>(from[i]);
                halves[i] = (word + 0x7fff + (word >> 16 & 1)) >> 16;
            }
        } else {
            float low = 0.0f, high = 0.0f, wrong = 0.0f;  // the last: NaN if one number is none, or is infinite
#pragma omp simd reduction(min : low) reduction(max : high) reduction(+ : wrong)
            for (int64_t i = 0; i < count; ++i) {
                low = from[i] < low ? from[i] : low;  // std::min of references would not become one instruction
                high = from[i] > high ? from[i] : high;
                wrong += from[i] * 0.0f;
            }
            const float steps = high > low ? 255.0f / (high - low) : 0.0f;
            const int32_t zero = nearest(-low * steps);
            units[row] = {(high - low) / 255.0f + wrong, zero};
            to[words<In>(count) - 1] = 0;
            uint8_t* bytes = reinterpret_cast<uint8_t*>(to);
            for (int64_t i = 0; i < count; ++i) bytes[i] = (uint8_t)std::min(nearest(from[i] * steps) + zero, 255);
        }
    }

    template <class In = Kind>
    void multiply(int64_t thread, const Linear& linear, int64_t rows, float* y, After after) {
        product<In>(linear, rows, input.get(), units.get(), words<In>(linear.inputs),
                    panels(linear) * thread / team.threads, panels(linear) * (thread + 1) / team.threads, y,
                    linear.outputs, after);
        team.wait();
    }

    typedef typename Kind::Slot Slot;

    Slot* heads_of(void* buffer, int64_t layer, int64_t head) {  // to which a row's `places` are added
        return (Slot*)buffer + (layer * s.cache_rows * m.heads + head) * s.capacity * m.slot_width;
    }

    void turn(float* head, int64_t half, const float* cosines) {  // columns i and i + half as a pair
        const float* sines = cosines + half;
        for (int64_t i = 0; i < half; ++i) {
            const float first = head[i], second = head[i + half];
            head[i] = first * cosines[i] - second * sines[i];
            head[i + half] = second * cosines[i] + first * sines[i];
        }
    }

    void remember(int64_t layer, int64_t row) {
        float* from = qkv.get() + row * 3 * m.inner;
        if (m.turns) {
            const int64_t width = m.inner / m.heads;  // of queries, then of keys
            for (int64_t head = 0; head < 2 * m.heads; ++head)
                turn(from + head * width, width / 2, m.turns + s.positions[row] * width);
        }
        const int64_t place = places[row * s.capacity + s.positions[row]];
        for (int64_t head = 0; head < m.heads; ++head) {
            int64_t start = m.head_starts[head], width = m.head_starts[head + 1] - start;
            keep(from + m.inner + start, width, heads_of(s.keys, layer, head) + place);
            keep(from + 2 * m.inner + start, width, heads_of(s.values, layer, head) + place);
        }
    }

    void attend(int64_t layer, int64_t row, int64_t head) {
        const int64_t start = m.head_starts[head], width = m.head_starts[head + 1] - start;
        const Head<Slot> one{heads_of(s.keys, layer, head), heads_of(s.values, layer, head),
                             places.get() + row * s.capacity, s.positions[row] + 1, s.capacity * m.slot_width};
        const float* query = qkv.get() + row * 3 * m.inner + start;
        float* to = mixed.get() + row * m.inner + start;
        switch (m.slot_width / LANES) {
            case 1: return attention<1>(one, query, width, 1, to);
            case 2: return attention<2>(one, query, width, 2, to);
            case 3: return attention<3>(one, query, width, 3, to);
            case 4: return attention<4>(one, query, width, 4, to);
            case 8: return attention<8>(one, query, width, 8, to);
            default: return attention<0>(one, query, width, m.slot_width / LANES, to);
        }
    }

    // The last product, and what is asked of the logits, piece by piece while they are in cache.
    void choose(int64_t thread) {
        const int64_t all = pieces(m.vocab);
        const int64_t first = all * thread / team.threads, last = all * (thread + 1) / team.threads;
        std::unique_ptr<float[]> z = floats(s.outputs * PIECE);
        for (int64_t piece = first; piece < last; ++piece) {
            const int64_t panel = piece * (PIECE / PANEL), end = std::min(panel + PIECE / PANEL, panels(m.output));
            product<Kind>(m.output, s.outputs, input.get(), units.get(), words(m.width), panel, end,
                          z.get() - piece * PIECE, PIECE, After::store);
            for (int64_t row = 0; row < s.outputs; ++row) {
                Best& best = bests[thread * s.outputs + row];
                const int64_t place = (thread * s.outputs + row) * kept;
                if (piece == first) best = {near.get() + place, near_ids.get() + place, kept};
                Part& part = parts[row * all + piece];
                if (!look(z.get() + row * PIECE, piece * PIECE, m.vocab, s.asked, best, part)) finite = 0;
            }
        }
        team.wait();
        share(thread, s.outputs, [&](int64_t row) {
            std::vector<Scored> found;
            for (int64_t other = 0; other < team.threads; ++other) {
                const Best& best = bests[other * s.outputs + row];
                for (int64_t i = 0; i < best.found; ++i) found.emplace_back(-best.values[i], best.ids[i]);
            }
            if (!finite) return;  // the caller refuses; NaN has no order
            double sum = s.asked.log_sums ? log_sum(parts.get() + row * all, all) : 0.0;
            if constexpr (AGAIN) sum = again(row, found, sum);
            std::sort(found.begin(), found.end());
            for (int64_t i = 0; i < s.asked.k; ++i) {
                s.asked.values[row * s.asked.k + i] = -found[i].first;
                s.asked.ids[row * s.asked.k + i] = found[i].second;
            }
            if (s.asked.log_sums) s.asked.log_sums[row] = (float)sum;
        });
    }

    float exact(int64_t out, int64_t id) {  // a logit from weights and inputs that are not rounded
        const float *last = last_of(out), *weights = m.output_rows + id * m.width;
        F sums = {};
        int64_t i = 0;
        for (; i + LANES <= m.width; i += LANES) sums += load(last + i) * load(weights + i);
        float sum = sum_of(sums);
        for (; i < m.width; ++i) sum += last[i] * weights[i];
        return sum + (m.output.bias ? m.output.bias[id] : 0.0f);
    }

    // The largest logits of a row, computed again: the likeliest token hangs on a small difference between these.
    void again(int64_t out, float* logits) {
        float values[AGAIN];
        int64_t ids[AGAIN];
        Best best{values, ids, AGAIN};
        enter_all(logits, 0, m.vocab, best);
        for (int64_t i = 0; i < best.found; ++i) logits[ids[i]] = exact(out, ids[i]);
    }

    // The same where only the largest were kept; returns ln(sum(exp)) with them in place of the rounded ones. Banned ids
    // count, as they do among all logits.
    double again(int64_t out, std::vector<Scored>& found, double log_sum) {
        std::vector<Scored> all = found;
        for (int64_t i = 0; i < s.asked.bans; ++i) {
            const int64_t id = s.asked.banned[i], panel = id / PANEL;
            float z[PANEL];
            product<Kind>(m.output, 1, input.get() + out * words(m.width), units.get() + out, words(m.width), panel,
                          panel + 1, z - panel * PANEL, PANEL, After::store);
            all.emplace_back(-z[id % PANEL], id);
        }
        const int64_t count = std::min<int64_t>(AGAIN, all.size());
        std::partial_sort(all.begin(), all.begin() + count, all.end());
        const double highest = -all[0].first;
        double sum = std::exp(log_sum - highest);
        for (int64_t i = 0; i < count; ++i) {
            const float logit = exact(out, all[i].second);
            sum += std::exp(logit - highest) - std::exp(-all[i].first - highest);
            for (Scored& one : found)
                if (one == all[i]) one.first = -logit;
        }
        return highest + std::log(sum);
    }

    const Model& m;
    const Step& s;
    std::unique_ptr<float[]> x, normed, qkv, mixed, up;
    std::unique_ptr<int64_t[]> places;  // (rows, capacity) where each slot's first head lies in a layer
    std::unique_ptr<Part[]> parts;  // (outputs, pieces)
    std::unique_ptr<Best[]> bests;  // (threads, outputs) of `kept` each, in `near` and `near_ids`
    int64_t kept;
    std::unique_ptr<float[]> near;
    std::unique_ptr<int64_t[]> near_ids;
    std::unique_ptr<uint32_t[]> input;
    std::unique_ptr<Unit[]> units;
};
