// What the page holds: bytes written as the characters of windows-1252, and in them tensors and tables.

// The characters of the bytes 0x80 to 0x9f; all other bytes are the code points of the same number.
const HIGH = "\u20ac\x81\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\x8d\u017d\x8f" +
  "\x90\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\x9d\u017e\u0178";
const BYTE_OF_HIGH = new Map(Array.from(HIGH, (character, place) => [character.charCodeAt(0), 0x80 + place]));

// "=" comes before the four bytes that HTML would change; they are written 64 higher (tinylm/lab/package.py).
export function bytesOf(text) {
  const bytes = new Uint8Array(text.length);
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    let code = text.charCodeAt(at);
    const escaped = code === 61;
    if (escaped) code = text.charCodeAt(++at);
    const byte = code < 0x80 || (code > 0x9f && code < 0x100) ? code : BYTE_OF_HIGH.get(code);
    bytes[count++] = escaped ? byte - 64 : byte;
  }
  return bytes.subarray(0, count);
}

export async function inflated(bytes) {
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
    const found = new Float32Array(count);
    for (let i = 0; i < count; i++) found[i] = numbers[i] * scales[Math.floor(i / width)];
    return found;
  },
  // a scale for each 64 numbers, the upper half of a float32, then two numbers in a byte, the first in its low half
  int4: (bytes, count) => {
    const groups = Math.ceil(count / 64);
    const upper = new Uint16Array(bytes.slice(0, 2 * groups).buffer);
    const scales = new Float32Array(Uint32Array.from(upper, (half) => half << 16).buffer);
    const found = new Float32Array(count);
    for (let i = 0; i < count; i++) {
      const pair = bytes[2 * groups + (i >> 1)];
      found[i] = ((i & 1 ? pair >> 4 : pair & 15) - 8) * scales[i >> 6];
    }
    return found;
  },
};

// list: [{name, shape, format, bytes}] in the order of the bytes -> name -> {shape, data: Float32Array}
export function readTensors(list, bytes) {
  let at = 0;
  return new Map(
    list.map(({ name, shape, format, bytes: length }) => {
      const count = shape.reduce((product, side) => product * side, 1);
      const data = READ[format](bytes.subarray(at, at + length), count, shape);
      at += length;
      return [name, { shape, data }];
    }),
  );
}
