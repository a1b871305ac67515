// Tensors as the page holds them (tinylm/lab/build.py).

const COARSEST = 4; // coarse numbers are -4 to 4

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

function floatsOf(base64) {
  return new Float32Array(bytesOf(base64).buffer);
}

// Numbers from -4 to 4, two in each character; `pairs` has the characters in order.
function coarseNumbers(text, pairs, size) {
  const levels = 2 * COARSEST + 1;
  const numbers = new Int8Array(size + (size % 2));
  const orderOf = new Map([...pairs].map((character, order) => [character, order]));
  for (let i = 0; i < text.length; i++) {
    const pair = orderOf.get(text[i]);
    numbers[2 * i] = Math.floor(pair / levels) - COARSEST;
    numbers[2 * i + 1] = (pair % levels) - COARSEST;
  }
  return numbers.subarray(0, size);
}

// The upper 16 bits of each float32 in base64
function bfloatsOf(base64) {
  const upper = new Uint16Array(bytesOf(base64).buffer);
  return new Float32Array(Uint32Array.from(upper, (bits) => bits << 16).buffer);
}

// A tensor of the page -> {shape, data}. It has one of four forms: float32 `numbers`, or int8 ones
// with `scales`, a float32 for each row; `bfloat16` numbers, or `coarse` ones with scales in bfloat16.
function readTensor({ shape, numbers, scales, coarse, bfloat16 }, pairs) {
  if (scales) return { shape, data: scaled(new Int8Array(bytesOf(numbers).buffer), floatsOf(scales)) };
  if (numbers !== undefined) return { shape, data: floatsOf(numbers) };
  const floats = bfloatsOf(bfloat16);
  if (coarse === undefined) return { shape, data: floats };
  const [rows, width] = shape;
  return { shape, data: scaled(coarseNumbers(coarse, pairs, rows * width), floats) };
}

// Each number times the scale of its row
function scaled(integers, scaleOf) {
  const width = integers.length / scaleOf.length;
  const data = new Float32Array(integers.length);
  for (let i = 0; i < data.length; i++) data[i] = integers[i] * scaleOf[Math.floor(i / width)];
  return data;
}

// name -> {shape, data: Float32Array} of a checkpoint of the page's facts
export function readTensors(facts, checkpoint) {
  const entries = Object.entries(checkpoint.tensors);
  return Object.fromEntries(entries.map(([name, tensor]) => [name, readTensor(tensor, facts.pairs)]));
}
