// The memory that WebAssembly computes in, and the two products on it. Places are counted in float32 numbers.

const PAGE = 65536; // bytes by which such memory grows

export function padded(columns) {
  return Math.ceil(columns / 8) * 8; // the products take eight numbers at a time
}

export class Memory {
  constructor(code) {
    this.memory = new WebAssembly.Memory({ initial: 1 });
    this.used = 0;
    this.numbers = new Float32Array(this.memory.buffer);
    const module = new WebAssembly.Module(code);
    this.kernels = new WebAssembly.Instance(module, { lab: { memory: this.memory } }).exports;
  }

  // Place of `count` numbers, zero at first. `numbers` is a new array after it: never keep it over an `allot`.
  allot(count) {
    const place = this.used;
    this.used += padded(count);
    const lacking = this.used * 4 - this.memory.buffer.byteLength;
    if (lacking > 0) {
      this.memory.grow(Math.ceil(lacking / PAGE));
      this.numbers = new Float32Array(this.memory.buffer);
    }
    return place;
  }

  view(place, count) {
    return this.numbers.subarray(place, place + count);
  }

  // out[r] = sum_c w[r, c] x[c]; all are places, `columns` is padded
  product(out, w, x, rows, columns) {
    this.kernels.product(out * 4, w * 4, x * 4, rows, columns);
  }

  // out[c] = sum_r p[r] v[r, c]
  mix(out, v, p, rows, columns) {
    this.kernels.mix(out * 4, v * 4, p * 4, rows, columns);
  }
}
