// A step of the transformer in float32: new tokens of each sequence in, the logits after its last one out.
//
// Keys and values of earlier tokens are those of tinylm/model/kv_cache.py, which gets the new ones. The formulas are
// those of tinylm/model/transformer.py; weights.py fills the structures.
#include <new>
#include <vector>

#include "products.h"

struct Norm {
    const float *gain, *bias;  // bias or null
};

struct Block {
    Norm norm1, norm2;
    Linear qkv, out, up, down;
};

struct Model {
    int64_t layers, width, heads, head_width, feed_forward, pre_norm, norm_kind, gelu, final_norm;
    float norm_eps, input_scale, output_scale, attention_scale;
    const float *embedding;  // (V, D)
    const float *positions;  // (T, D) or null
    const float *rotary;     // (T, 2, Dh / 2) cosines and sines, or null
    const Block* blocks;
    Norm last_norm;
    Linear output;
};

struct Step {
    int64_t sequences, capacity, layer_stride, threads;
    const int64_t* starts;               // (sequences + 1) where each one's tokens begin, and the end of the last
    const int64_t *tokens, *positions;   // of all sequences, one after another
    float *keys, *values;                // (sequences, H, capacity, Dh), each layer's layer_stride after the last's
    float* logits;                       // (sequences, V)
};

enum NormKind { LAYER, RMS, STD };

namespace {

// The tokens of sequences `begin` to `end`, computed by one thread; large products may use `threads`.
class Rows {
  public:
    Rows(const Model& model, const Step& step, int64_t begin, int64_t end, int64_t threads)
        : m(model), s(step), begin(begin), end(end), first(step.starts[begin]), count(step.starts[end] - first),
          threads(threads), inner(model.heads * model.head_width), x(count * model.width), normed(count * model.width),
          qkv(count * 3 * inner), mixed(count * inner), up(count * model.feed_forward), scores(step.capacity + LANES) {}

    void run() {
        embed();
        for (int64_t layer = 0; layer < m.layers; ++layer) {
            const Block& block = m.blocks[layer];
            multiply(block.qkv, m.pre_norm ? norm(block.norm1) : x, qkv.data(), After::store);
            for (int64_t sequence = begin; sequence < end; ++sequence)
                for (int64_t token = s.starts[sequence]; token < s.starts[sequence + 1]; ++token)
                    attend(layer, sequence, token);
            multiply(block.out, mixed, x.data(), After::add);
            if (!m.pre_norm) x = norm(block.norm1);
            multiply(block.up, m.pre_norm ? norm(block.norm2) : x, up.data(), m.gelu ? After::gelu : After::relu);
            multiply(block.down, up, x.data(), After::add);
            if (!m.pre_norm) x = norm(block.norm2);
        }
        if (m.final_norm) x = norm(m.last_norm);
        std::vector<float> last((end - begin) * m.width);
        for (int64_t sequence = begin; sequence < end; ++sequence) {
            const float* from = x.data() + (s.starts[sequence + 1] - 1 - first) * m.width;
            for (int64_t i = 0; i < m.width; ++i) last[(sequence - begin) * m.width + i] = from[i] * m.output_scale;
        }
        product(m.output, end - begin, last.data(), s.logits + begin * m.output.outputs, After::store, threads);
    }

  private:
    void multiply(const Linear& linear, const std::vector<float>& from, float* to, After after) {
        product(linear, count, from.data(), to, after, threads);
    }

    void embed() {
        for (int64_t row = 0; row < count; ++row) {
            const float* vector = m.embedding + s.tokens[first + row] * m.width;
            const float* position = m.positions ? m.positions + s.positions[first + row] * m.width : nullptr;
            float* to = x.data() + row * m.width;
            for (int64_t i = 0; i < m.width; ++i) to[i] = vector[i] * m.input_scale + (position ? position[i] : 0.0f);
        }
    }

    const std::vector<float>& norm(const Norm& n) {
        for (int64_t row = 0; row < count; ++row) normalise(n, x.data() + row * m.width, normed.data() + row * m.width);
        return normed;
    }

    void normalise(const Norm& n, const float* from, float* to) {
        float mean = 0.0f, square = 0.0f;
        if (m.norm_kind != RMS) {
#pragma omp simd reduction(+ : mean)
            for (int64_t i = 0; i < m.width; ++i) mean += from[i];
            mean /= m.width;
        }
#pragma omp simd reduction(+ : square)
        for (int64_t i = 0; i < m.width; ++i) square += (from[i] - mean) * (from[i] - mean);
        float deviation = std::sqrt(square / m.width + m.norm_eps);
        if (m.norm_kind == STD) deviation = std::sqrt(square / (m.width - 1)) + m.norm_eps;
        const float inverse = 1.0f / deviation;
        for (int64_t i = 0; i < m.width; ++i)
            to[i] = (from[i] - mean) * inverse * n.gain[i] + (n.bias ? n.bias[i] : 0.0f);
    }

    // Keep the token's key and value, then softmax(scale q K^T) V for each head: earlier tokens' are kept already.
    void attend(int64_t layer, int64_t sequence, int64_t token) {
        const int64_t row = token - first, position = s.positions[token], width = m.head_width;
        float* from = qkv.data() + row * 3 * inner;
        for (int64_t head = 0; m.rotary && head < 2 * m.heads; ++head)  // of queries, then of keys
            rotate(from + head * width, m.rotary + position * width);
        for (int64_t head = 0; head < m.heads; ++head) {
            const int64_t slots = layer * s.layer_stride + (sequence * m.heads + head) * s.capacity * width;
            float *keys = s.keys + slots, *values = s.values + slots;
            const float* query = from + head * width;
            std::copy_n(query + inner, width, keys + position * width);
            std::copy_n(query + 2 * inner, width, values + position * width);
            const float total = weigh(query, keys, position + 1);
            mix(values, position + 1, 1.0f / total, mixed.data() + row * inner + head * width);
        }
    }

    void rotate(float* head, const float* cosines) {  // columns i and i + half as a pair
        const int64_t half = m.head_width / 2;
        const float* sines = cosines + half;
        for (int64_t i = 0; i < half; ++i) {
            const float left = head[i], right = head[i + half];
            head[i] = left * cosines[i] - right * sines[i];
            head[i + half] = right * cosines[i] + left * sines[i];
        }
    }

    // scores = exp(scale q k - the highest of them) for each key; returns their sum.
    float weigh(const float* query, const float* keys, int64_t slots) {
        float highest = -INFINITY;
        for (int64_t slot = 0; slot < slots; ++slot) {
            scores[slot] = dot(query, keys + slot * m.head_width) * m.attention_scale;
            highest = std::max(highest, scores[slot]);
        }
        std::fill_n(scores.begin() + slots, LANES, -INFINITY);
        Vector total = {};
        for (int64_t slot = 0; slot < slots; slot += LANES) {
            const Vector score = load(scores.data() + slot);
            Vector weight = exp_of(score - highest);
            weight = score == -INFINITY ? Vector{} : weight;
            store(scores.data() + slot, weight);
            total += weight;
        }
        return sum_of(total);
    }

    float dot(const float* query, const float* key) const {
        Vector sums = {};
        int64_t i = 0;
        for (; i + LANES <= m.head_width; i += LANES) sums += load(query + i) * load(key + i);
        float sum = sum_of(sums);
        for (; i < m.head_width; ++i) sum += query[i] * key[i];
        return sum;
    }

    // The values' sum by the scores, times `factor`.
    void mix(const float* values, int64_t slots, float factor, float* to) const {
        const int64_t width = m.head_width;
        int64_t i = 0;
        for (; i + LANES <= width; i += LANES) {
            Vector sum = {};
            for (int64_t slot = 0; slot < slots; ++slot) sum += load(values + slot * width + i) * scores[slot];
            store(to + i, sum * factor);
        }
        for (; i < width; ++i) {
            float sum = 0.0f;
            for (int64_t slot = 0; slot < slots; ++slot) sum += values[slot * width + i] * scores[slot];
            to[i] = sum * factor;
        }
    }

    const Model& m;
    const Step& s;
    const int64_t begin, end, first, count, threads, inner;
    std::vector<float> x, normed, qkv, mixed, up, scores;
};

// Returns whether the memory sufficed: an exception must not leave a thread.
bool run(const Model& model, const Step& step, int64_t begin, int64_t end, int64_t threads) {
    try {
        Rows(model, step, begin, end, threads).run();
    } catch (const std::bad_alloc&) {
        return false;
    }
    return true;
}

}  // namespace

// Threads share the sequences; those of a few tokens wait for the weights, and so share the large products instead.
// Returns whether the memory sufficed.
extern "C" int64_t tinylm_step(const Model* model, const Step* step) {
    const bool few = step->starts[step->sequences] <= TALL;
    const int64_t shares = few ? 1 : std::min(step->sequences, step->threads);
    if (shares == 1) return run(*model, *step, 0, step->sequences, step->threads);
    bool done = true;
#pragma omp parallel for num_threads(shares) schedule(static, 1) reduction(&& : done)
    for (int64_t share = 0; share < shares; ++share) {
        const int64_t begin = step->sequences * share / shares;
        const int64_t end = step->sequences * (share + 1) / shares;
        done = run(*model, *step, begin, end, 1) && done;
    }
    return done;
}
