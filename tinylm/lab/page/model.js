// The model's forward pass, one token at a time with a KV cache (tinylm/model/transformer.py).

const ERF_FACTORS = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592];

// erf(x) within 1.5e-7 (Abramowitz and Stegun 1964, formula 7.1.26)
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  let sum = 0;
  for (const factor of ERF_FACTORS) sum = t * (sum + factor);
  const value = 1 - sum * Math.exp(-x * x);
  return x < 0 ? -value : value;
}

const ACTIVATIONS = {
  relu: (x) => Math.max(x, 0),
  gelu: (x) => 0.5 * x * (1 + erf(x * Math.SQRT1_2)),
};

// Sine and cosine of t / 10000^(i / width) in turn, i the even columns below width
function sinusoids(context, width) {
  const table = [];
  for (let t = 0; t < context; t++) {
    const row = new Float32Array(width);
    for (let i = 0; i < width; i++) {
      const angle = t / 10000 ** ((i - (i % 2)) / width);
      row[i] = i % 2 ? Math.cos(angle) : Math.sin(angle);
    }
    table.push(row);
  }
  return table;
}

export function softmax(scores) {
  // plain loops: this runs for every head and token
  const chances = new Float64Array(scores.length);
  let top = -Infinity;
  let sum = 0;
  for (let i = 0; i < scores.length; i++) if (scores[i] > top) top = scores[i];
  for (let i = 0; i < scores.length; i++) sum += chances[i] = Math.exp(scores[i] - top);
  for (let i = 0; i < scores.length; i++) chances[i] /= sum;
  return chances;
}

// The dot product of numbers of `matrix`, from `start` on, with x.
// Four sums, since each addition to a single one would wait for the one before.
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
    for (let row = 0; row < rows; row++) output[row] = dot(weight, row * columns, x);
    if (bias) add(output, bias);
    return output;
  }

  row(index) {
    return this.weight.subarray(index * this.columns, (index + 1) * this.columns);
  }
}

// The kinds of norm are those of NORM_KINDS in tinylm/lab/build.py.
class Norm {
  constructor(kind, eps, gain, bias) {
    Object.assign(this, { kind, eps, gain: gain.data, bias: bias?.data });
  }

  apply(x) {
    const { kind, eps, gain, bias } = this;
    const width = x.length;
    let mean = 0;
    if (kind !== "rms") {
      for (const value of x) mean += value;
      mean /= width;
    }
    let squares = 0;
    for (const value of x) squares += (value - mean) ** 2;
    const divisor =
      kind === "std" ? Math.sqrt(squares / (width - 1)) + eps : Math.sqrt(squares / width + eps);
    const output = x.map((value, i) => ((value - mean) / divisor) * gain[i]);
    if (bias) add(output, bias);
    return output;
  }
}

function add(x, y) {
  for (let i = 0; i < x.length; i++) x[i] += y[i];
}

export class Model {
  // settings: section model of the run, with vocab_size and width; tensors: name -> {shape, data}
  constructor(settings, tensors) {
    const { context, heads, layers, positions } = settings;
    const linear = (name) => new Linear(tensors[`${name}.weight`], tensors[`${name}.bias`]);
    const norm = (name) => {
      const { norm_kind: kind, norm_eps: eps } = settings;
      return new Norm(kind, eps, tensors[`${name}.gain`], tensors[`${name}.bias`]);
    };
    this.settings = settings;
    this.width = settings.width;
    this.off = new Set(); // heads that are switched off, as layer.head from 0
    this.blocks = Array.from({ length: layers }, (_, layer) => ({
      norm1: norm(`blocks.${layer}.norm1`),
      norm2: norm(`blocks.${layer}.norm2`),
      qkv: linear(`blocks.${layer}.attention.qkv`),
      out: linear(`blocks.${layer}.attention.out`),
      up: linear(`blocks.${layer}.feed_forward.up`),
      down: linear(`blocks.${layer}.feed_forward.down`),
    }));
    this.finalNorm = settings.final_norm ? norm("final_norm") : { apply: (x) => x };
    this.embedding = new Linear(tensors.embedding, tensors.output_bias);
    this.embeddingScale = tensors.embedding_scale.data[0];
    this.output = settings.tied_output ? this.embedding : linear("output");
    if (positions === "sinusoids") this.positions = sinusoids(context, this.width);
    if (positions === "learned") {
      const table = new Linear(tensors.positions);
      this.positions = Array.from({ length: context }, (_, t) => table.row(t));
    }
    this.inner = this.blocks[0].out.columns; // width of the heads together
    const columns = this.inner / heads;
    this.heads = Array.from({ length: heads }, (_, head) => ({ start: head * columns, columns }));
  }

  // The same weights with these heads switched off instead
  withOff(off) {
    return Object.assign(Object.create(Model.prototype), this, { off });
  }

  // For each layer the keys and values of each token so far, 2 * inner numbers
  newCache() {
    return this.blocks.map(() => []);
  }

  // One token through all blocks -> its hidden state; its keys and values are added to the cache.
  // seen: collects for each layer and head the weights on all tokens so far
  step(cache, token, seen = null) {
    const isPre = this.settings.norm === "pre";
    const x = this.embedding.row(token).map((value) => value * this.embeddingScale);
    if (this.positions) add(x, this.positions[cache[0].length]);
    this.blocks.forEach((block, layer) => {
      if (isPre) {
        add(x, this.attend(layer, block.norm1.apply(x), cache[layer], seen));
        add(x, this.feedForward(block, block.norm2.apply(x)));
      } else {
        add(x, this.attend(layer, x, cache[layer], seen));
        x.set(block.norm1.apply(x));
        add(x, this.feedForward(block, x));
        x.set(block.norm2.apply(x));
      }
    });
    return this.finalNorm.apply(x);
  }

  // Query and key of a head: columns i and i + half as a pair, by the angle t / 10000^(i / half)
  rotate(qkv, { start, columns }, t) {
    const half = columns / 2;
    for (let i = 0; i < half; i++) {
      const angle = t / 10000 ** (i / half);
      const cos = Math.cos(angle);
      const sin = Math.sin(angle);
      for (const from of [start, this.inner + start]) {
        const first = qkv[from + i];
        const second = qkv[from + i + half];
        qkv[from + i] = first * cos - second * sin;
        qkv[from + i + half] = second * cos + first * sin;
      }
    }
  }

  // rows: the layer's part of the cache
  attend(layer, x, rows, seen) {
    const { inner } = this;
    const block = this.blocks[layer];
    const qkv = block.qkv.apply(x);
    if (this.settings.positions === "rotary")
      for (const head of this.heads) this.rotate(qkv, head, rows.length);
    rows.push(qkv.slice(inner));
    const joined = new Float32Array(inner);
    const maps = this.heads.map(({ start, columns }, head) => {
      const query = qkv.subarray(start, start + columns);
      const scores = rows.map((row) => dot(row, start, query) * columns ** -0.5);
      const weights = Float32Array.from(softmax(scores));
      if (this.off.has(`${layer}.${head}`)) return weights; // switched off: it adds nothing
      for (let t = 0; t < rows.length; t++) {
        const row = rows[t];
        for (let i = start; i < start + columns; i++) joined[i] += weights[t] * row[inner + i];
      }
      return weights;
    });
    seen?.push(maps);
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
}
