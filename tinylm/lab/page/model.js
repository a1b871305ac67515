// The model's forward pass, one token at a time with a KV cache: tinylm/model/transformer.py in JavaScript.

// erf(x) within 1.5e-7 (Abramowitz and Stegun 1964, formula 7.1.26)
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const sum = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  const value = 1 - sum * Math.exp(-x * x);
  return x < 0 ? -value : value;
}

const ACTIVATIONS = {
  relu: (x) => Math.max(x, 0),
  gelu: (x) => 0.5 * x * (1 + erf(x * Math.SQRT1_2)),
};

function sinusoids(context, width) {
  const table = [];
  for (let t = 0; t < context; t++) {
    const angle = (i) => t / 10000 ** ((i - (i % 2)) / width);
    table.push(Float32Array.from({ length: width }, (_, i) => (i % 2 ? Math.cos(angle(i)) : Math.sin(angle(i)))));
  }
  return table;
}

// [cosine, sine] of t / 10000^(2i / width), for each t and each i below width / 2.
function ropeTable(context, width) {
  const table = [];
  for (let t = 0; t < context; t++)
    for (let i = 0; i < width; i += 2) {
      const angle = t / 10000 ** (i / width);
      table.push([Math.cos(angle), Math.sin(angle)]);
    }
  return table;
}

export function softmax(scores) {
  const chances = new Float64Array(scores.length); // plain loops: this runs for every head and token
  let top = -Infinity;
  let sum = 0;
  for (let i = 0; i < scores.length; i++) if (scores[i] > top) top = scores[i];
  for (let i = 0; i < scores.length; i++) sum += chances[i] = Math.exp(scores[i] - top);
  for (let i = 0; i < scores.length; i++) chances[i] /= sum;
  return chances;
}

// The dot product of numbers of `matrix`, from `start` on, with x. Four sums at a time, since one would wait for itself.
function dot(matrix, start, x) {
  const width = x.length;
  const unrolled = width - (width % 4);
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  for (let i = 0; i < unrolled; i += 4) {
    a += matrix[start + i] * x[i];
    b += matrix[start + i + 1] * x[i + 1];
    c += matrix[start + i + 2] * x[i + 2];
    d += matrix[start + i + 3] * x[i + 3];
  }
  for (let i = unrolled; i < width; i++) a += matrix[start + i] * x[i];
  return a + b + (c + d);
}

// x W^T + b
class Linear {
  constructor({ shape, data }, bias) {
    const [rows, columns] = shape;
    Object.assign(this, { rows, columns, weight: data, bias: bias?.data });
    this.output = new Float32Array(rows);
  }

  // The result stays valid until the next call.
  apply(x) {
    const { rows, columns, weight, bias, output } = this;
    for (let row = 0; row < rows; row++) output[row] = dot(weight, row * columns, x) + (bias ? bias[row] : 0);
    return output;
  }

  row(index) {
    return this.weight.subarray(index * this.columns, (index + 1) * this.columns);
  }
}

const NORM_KINDS = ["layer", "rms", "std"]; // as in tinylm/model/ops.py

class Norm {
  constructor(kind, eps, gain, bias) {
    if (!NORM_KINDS.includes(kind)) throw new Error(`norm_kind ${kind}; allowed: ${NORM_KINDS.join(", ")}`);
    Object.assign(this, { kind, eps, gain: gain.data, bias: bias?.data, out: new Float32Array(gain.data.length) });
  }

  apply(x) {
    const { kind, eps, gain, bias, out } = this;
    const width = x.length;
    let mean = 0;
    if (kind !== "rms") {
      for (const value of x) mean += value;
      mean /= width;
    }
    let squares = 0;
    for (const value of x) squares += (value - mean) ** 2;
    const scale = kind === "std" ? 1 / (Math.sqrt(squares / (width - 1)) + eps) : 1 / Math.sqrt(squares / width + eps);
    for (let i = 0; i < width; i++) out[i] = (x[i] - mean) * scale * gain[i] + (bias ? bias[i] : 0);
    return out;
  }
}

function add(x, y) {
  for (let i = 0; i < x.length; i++) x[i] += y[i];
}

export class Model {
  // settings: section model of the run, with vocab_size and width; tensors: name -> {shape, data}
  constructor(settings, tensors) {
    Object.assign(this, { settings, width: settings.width, off: new Set() });
    const get = (name) => tensors.get(name);
    const linear = (name) => new Linear(get(`${name}.weight`), get(`${name}.bias`));
    const norm = (name) =>
      new Norm(settings.norm_kind, settings.norm_eps, get(`${name}.gain`), get(`${name}.bias`));
    this.blocks = Array.from({ length: settings.layers }, (_, layer) => ({
      norm1: norm(`blocks.${layer}.norm1`),
      norm2: norm(`blocks.${layer}.norm2`),
      qkv: linear(`blocks.${layer}.attention.qkv`),
      out: linear(`blocks.${layer}.attention.out`),
      up: linear(`blocks.${layer}.feed_forward.up`),
      down: linear(`blocks.${layer}.feed_forward.down`),
    }));
    this.finalNorm = settings.final_norm ? norm("final_norm") : { apply: (x) => x };
    this.embedding = new Linear(get("embedding"), settings.tied_output ? get("output_bias") : undefined);
    this.output = settings.tied_output ? this.embedding : linear("output");
    this.embeddingScale = get("embedding_scale").data[0];
    const learned = get("positions");
    if (settings.positions === "sinusoids") this.positions = sinusoids(settings.context, this.width);
    else if (learned) {
      const row = (t) => learned.data.subarray(t * this.width, (t + 1) * this.width);
      this.positions = Array.from({ length: settings.context }, (_, t) => row(t));
    }
    this.inner = this.blocks[0].out.columns;
    if (settings.positions === "rotary") this.ropeTable = ropeTable(settings.context, this.inner / settings.heads);
    const [narrow, wider] = [Math.floor(this.inner / settings.heads), this.inner % settings.heads];
    let start = 0;
    this.heads = Array.from({ length: settings.heads }, (_, head) => {
      const columns = narrow + (head < wider ? 1 : 0); // heads need not divide the width
      start += columns;
      return { start: start - columns, columns };
    });
    this.spare = []; // caches that are free again
  }

  // For each layer and head the keys and the values of the tokens so far, `columns` numbers each
  newCache() {
    const { layers, context } = this.settings;
    if (this.spare.length) return Object.assign(this.spare.pop(), { used: 0 });
    const layer = () => this.heads.map(({ columns }) => new Float32Array(context * columns));
    const room = () => Array.from({ length: layers }, layer);
    return { keys: room(), values: room(), used: 0 };
  }

  free(cache) {
    this.spare.push(cache);
  }

  copyCache(from, to) {
    for (const kind of ["keys", "values"])
      from[kind].forEach((heads, layer) =>
        heads.forEach((numbers, head) => {
          const count = from.used * this.heads[head].columns;
          to[kind][layer][head].set(numbers.subarray(0, count));
        }),
      );
    to.used = from.used;
  }

  // One token through all blocks; its place is the cache's next one.
  // seen: collects `maps`, for each layer and head the weights on all tokens so far, and `states` after each block.
  step(cache, token, seen = null) {
    const pre = this.settings.norm === "pre";
    const x = this.embedding.row(token).map((value) => value * this.embeddingScale);
    if (this.positions) add(x, this.positions[cache.used]);
    this.blocks.forEach((block, layer) => {
      if (pre) {
        add(x, this.attend(block, layer, block.norm1.apply(x), cache, seen));
        add(x, this.feedForward(block, block.norm2.apply(x)));
      } else {
        add(x, this.attend(block, layer, x, cache, seen));
        x.set(block.norm1.apply(x));
        add(x, this.feedForward(block, x));
        x.set(block.norm2.apply(x));
      }
      seen?.states.push(x.slice());
    });
    cache.used += 1;
    return this.finalNorm.apply(x).slice();
  }

  // Query and key of a head: columns i and i + half as a pair, by the angle of the place and i.
  rotate(qkv, start, columns, position) {
    const half = columns / 2;
    for (const from of [start, this.inner + start])
      for (let i = 0; i < half; i++) {
        const [cos, sin] = this.ropeTable[position * half + i];
        const [first, second] = [qkv[from + i], qkv[from + i + half]];
        qkv[from + i] = first * cos - second * sin;
        qkv[from + i + half] = second * cos + first * sin;
      }
  }

  attend(block, layer, x, cache, seen) {
    const { inner } = this;
    const position = cache.used;
    const joined = new Float32Array(inner);
    const qkv = block.qkv.apply(x);
    if (this.ropeTable) for (const { start, columns } of this.heads) this.rotate(qkv, start, columns, position);
    const maps = [];
    this.heads.forEach(({ start, columns }, head) => {
      const part = (which) => qkv.subarray(which * inner + start, which * inner + start + columns);
      const keys = cache.keys[layer][head];
      const values = cache.values[layer][head];
      keys.set(part(1), position * columns);
      values.set(part(2), position * columns);
      const query = part(0);
      const scores = new Float32Array(position + 1);
      for (let t = 0; t <= position; t++) scores[t] = dot(keys, t * columns, query) * columns ** -0.5;
      const weights = Float32Array.from(softmax(scores));
      if (seen) maps.push(weights);
      if (this.off.has(`${layer}.${head}`)) return; // switched off: it adds nothing
      for (let t = 0; t <= position; t++)
        for (let i = 0; i < columns; i++) joined[start + i] += weights[t] * values[t * columns + i];
    });
    seen?.maps.push(maps);
    return block.out.apply(joined);
  }

  feedForward(block, x) {
    const activate = ACTIVATIONS[this.settings.activation];
    const inside = block.up.apply(x);
    for (let i = 0; i < inside.length; i++) inside[i] = activate(inside[i]);
    return block.down.apply(inside);
  }

  // Scores of every token of the vocabulary after a hidden state
  logits(hidden) {
    if (!this.settings.tied_output) return this.output.apply(hidden).slice();
    const factor = this.embeddingScale * this.width ** -0.5;
    return this.output.apply(hidden.map((value) => value * factor)).slice();
  }

  // What the output matrix makes of the state after a block: an approximation for all blocks but the last
  lens(state) {
    return this.logits(this.finalNorm.apply(state));
  }
}
