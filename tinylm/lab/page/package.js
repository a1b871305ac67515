// What the page holds: tensors, deflated and written in base64 (tinylm/lab/package.py).

export async function inflated(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const READ = {
  float32: (bytes, count) => new Float32Array(bytes.slice(0, 4 * count).buffer),
  // a float32 scale for each row, then a byte for each number
  int8: (bytes, count, [rows]) => {
    const scales = new Float32Array(bytes.slice(0, 4 * rows).buffer);
    const numbers = new Int8Array(bytes.slice(4 * rows).buffer);
    const width = count / rows;
    const values = new Float32Array(count);
    for (let i = 0; i < count; i++) values[i] = numbers[i] * scales[Math.floor(i / width)];
    return values;
  },
};

// list: [{name, shape, format, bytes}] in the order of the bytes -> name -> {shape, data: Float32Array}
export function readTensors(list, bytes) {
  let offset = 0;
  return new Map(
    list.map(({ name, shape, format, bytes: length }) => {
      const count = shape.reduce((product, side) => product * side, 1);
      const data = READ[format](bytes.subarray(offset, offset + length), count, shape);
      offset += length;
      return [name, { shape, data }];
    }),
  );
}
