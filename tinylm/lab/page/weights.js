// Tensors as the page holds them (tinylm/lab/build.py).

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

function floatsOf(base64) {
  return new Float32Array(bytesOf(base64).buffer);
}

// {shape, numbers: float32, or with `scales` int8 and a float32 scale for each row, all in base64}
function readTensor({ shape, numbers, scales }) {
  if (!scales) return { shape, data: floatsOf(numbers) };
  const integers = new Int8Array(bytesOf(numbers).buffer);
  const scaleOf = floatsOf(scales);
  const width = integers.length / scaleOf.length;
  const data = new Float32Array(integers.length);
  for (let i = 0; i < data.length; i++) data[i] = integers[i] * scaleOf[Math.floor(i / width)];
  return { shape, data };
}

// name -> {shape, data: Float32Array}
export function readTensors(tensors) {
  const entries = Object.entries(tensors).map(([name, tensor]) => [name, readTensor(tensor)]);
  return Object.fromEntries(entries);
}
