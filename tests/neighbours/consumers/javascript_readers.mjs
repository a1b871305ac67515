// Readers of exports in JavaScript: @huggingface/tokenizers, transformers.js and node-llama-cpp.
// The driver copies this file into the folder of their packages, and calls it with the folder of the models.

import { readFileSync, readdirSync, existsSync } from "node:fs";
import { createRequire } from "node:module";
import { Tokenizer } from "@huggingface/tokenizers";
import { AutoModelForCausalLM, AutoTokenizer, Tensor, TextGenerationPipeline, env } from "@huggingface/transformers";
import { getLlama, TokenBias } from "node-llama-cpp";

env.allowRemoteModels = false;
const work = process.argv[2];
const readJson = (path) => JSON.parse(readFileSync(path, "utf8"));
const DRAWS = 50;
let failed = false;

const versionOf = (name) => {
  // Not every package exports its package.json.
  const path = new URL(`node_modules/${name}/package.json`, import.meta.url);
  return readJson(path).version;
};

/** One line of JSON, as consumers/comparing.py prints it; bound null: a difference that `says` tells how to avoid. */
function print(tool, compared, models, difference, unit, bound, says = "") {
  if (bound !== null && difference > bound) failed = true;
  if (bound === null && difference === 0) {
    failed = true;
    console.error(`${compared}: expected a difference, got 0; remove its sentence`);
  }
  const version = versionOf(tool);
  console.log(JSON.stringify({ tool, version, compared, models, difference, unit, bound, says }));
}

/** The models' folders, cards, and the arrays of ids in expected.npz. */
function writtenModels() {
  const folders = readdirSync(work).sort().map((name) => `${work}/${name}`);
  return folders.filter((folder) => existsSync(`${folder}/card.json`)).map((folder) => {
    const card = readJson(`${folder}/card.json`);
    const form = card.formats.includes("transformers") ? "transformers" : "tinylm";
    return { folder, card, tokenizer: `${folder}/${form}`, arrays: integers(`${folder}/expected.npz`) };
  });
}

/** Arrays of int64 with two dimensions, of a file by numpy.savez: a zip file without compression. */
function integers(path) {
  const file = readFileSync(path);
  const arrays = {};
  for (let at = 0; file.readUInt32LE(at) === 0x04034b50; ) {
    const nameEnd = at + 30 + file.readUInt16LE(at + 26);
    const name = file.toString("utf8", at + 30, nameEnd).replace(".npy", "");
    const array = nameEnd + file.readUInt16LE(at + 28);
    const data = array + 10 + file.readUInt16LE(array + 8);
    const header = file.toString("latin1", array + 10, data);
    const shape = header.match(/\(([\d, ]*)\)/)[1].split(",").filter((size) => size.trim()).map(Number);
    const [, kind, bytes] = header.match(/'<(\w)(\d)'/);
    const count = shape.reduce((product, size) => product * size, 1);
    if (kind === "i" && shape.length === 2) {
      const flat = Array.from({ length: count }, (_, place) => Number(file.readBigInt64LE(data + 8 * place)));
      arrays[name] = Array.from({ length: shape[0] }, (_, row) => flat.slice(row * shape[1], (row + 1) * shape[1]));
    }
    at = data + count * Number(bytes);
  }
  return arrays;
}

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
const opened = (card, ids) => (card.roles.bos === undefined ? ids : [card.roles.bos, ...ids]);
// Σ at the end of a word becomes ς in JavaScript, and σ in Python.
const texts = (card) => card.texts.filter(([text]) => !/Σ/.test(text));

/** Texts with other ids, and ids with other texts; export.md says where `punctuation: keep` puts spaces. */
function different(models, open) {
  let ofTexts = 0;
  let ofIds = 0;
  for (const { card, tokenizer } of models) {
    const { encode, decode } = open(tokenizer);
    const plain = card.tokenizer.punctuation === "keep" ? (text) => text.replaceAll(" ", "") : (text) => text;
    for (const [text, ids, decoded] of texts(card)) {
      ofTexts += !same(encode(text), opened(card, ids));
      ofIds += plain(decode(opened(card, ids))) !== plain(decoded);
    }
  }
  return { ofTexts, ofIds };
}

function checkTokenizers(models) {
  const tool = "@huggingface/tokenizers";
  const read = (folder) => new Tokenizer(readJson(`${folder}/tokenizer.json`), readJson(`${folder}/tokenizer_config.json`));
  const { ofTexts, ofIds } = different(models, (folder) => {
    const tokenizer = read(folder);
    return {
      encode: (text) => tokenizer.encode(text).ids,
      decode: (ids) => tokenizer.decode(ids, { skip_special_tokens: true }),
    };
  });
  print(tool, "ids of texts", models.length, ofTexts, "texts that differ", 0);
  print(tool, "texts of ids", models.length, ofIds, "texts that differ", 0);
  const bare = models.filter(({ card }) => card.tokenizer.kind === "longest_match");
  const lines = bare.filter(({ card, tokenizer }) => {
    const { encode } = { encode: (text) => read(tokenizer).encode(text).ids };
    const text = card.texts[0][0];
    return !same(encode(`${text}\n${text}`), [...encode(text), ...encode(text)]);
  });
  print(tool, "two lines (longest_match)", bare.length, lines.length, "models that differ", 0);
  const special = models.filter(({ card, tokenizer }) => {
    if (card.roles.bos === undefined) return false;
    const { bos } = card.roles;
    return read(tokenizer).encode(card.tokens[bos]).ids.filter((id) => id === bos).length > 1;
  });
  print(
    tool, "text that spells a special token", models.length, special.length, "models that read it as the token", null,
    "It ignores `split_special_tokens`: remove `<sos>`, `<eos>` and the like from untrusted text.",
  );
}

async function checkTransformers(models) {
  const tool = "@huggingface/transformers";
  const read = new Map();
  for (const { tokenizer } of models) read.set(tokenizer, await AutoTokenizer.from_pretrained(tokenizer));
  const { ofTexts, ofIds } = different(models, (folder) => ({
    encode: (text) => Array.from(read.get(folder)(text).input_ids.data, Number),
    decode: (ids) => read.get(folder).decode(ids, { skip_special_tokens: true }),
  }));
  print(tool, "ids of texts", models.length, ofTexts, "texts that differ", 0);
  print(tool, "texts of ids", models.length, ofIds, "texts that differ", 0);
  let wrong = 0;
  for (const { card, tokenizer } of models) {
    const [text, ids] = texts(card).find(([, ids]) => ids.length < card.model.context - 1);
    let given;
    const generate = ({ input_ids }) => {
      given = input_ids.tolist()[0].map(Number);
      return input_ids;
    };
    const pipeline = new TextGenerationPipeline({
      task: "text-generation", tokenizer: read.get(tokenizer), model: { generate },
    });
    await pipeline(text);
    wrong += !same(given, opened(card, ids));
  }
  print(tool, "what the text-generation pipeline gives a model", models.length, wrong, "prompts that differ", 0);
}

/** Rows of ids with an attention mask for `generate()`. */
function inputsOf(rows) {
  const shape = [rows.length, rows[0].length];
  const ids = BigInt64Array.from(rows.flat(), BigInt);
  return { inputs: new Tensor("int64", ids, shape), attention_mask: new Tensor("int64", ids.map(() => 1n), shape) };
}

/** What a graph by optimum generates after each row. */
async function continued(graph, rows, options) {
  const found = await graph.generate({ ...inputsOf(rows), ...options });
  return found.tolist().map((row) => row.slice(rows[0].length).map(Number));
}

/** The number of rows that differ; `wanted` is filled up with -1. */
const differentRows = (found, wanted) =>
  found.filter((row, number) => {
    const ids = wanted[number].filter((id) => id >= 0);
    return !same(row.slice(0, ids.length), ids);
  }).length;

/** Draws that are not the likeliest token, although `filter` leaves no other. */
async function otherDraws(graph, prompt, filter) {
  const likeliest = await continued(graph, [prompt], { do_sample: false, max_new_tokens: 1 });
  const draws = Array(DRAWS).fill(prompt);
  const options = { do_sample: true, temperature: 1.0, top_k: 0, max_new_tokens: 1, ...filter };
  const found = await continued(graph, draws, options);
  return found.filter((row) => !same(row, likeliest[0])).length;
}

/** `generate()` of the graphs that consumers/optimum_onnx.py wrote. */
async function checkGenerate(models) {
  const tool = "@huggingface/transformers";
  const written = models.filter(({ folder }) => existsSync(`${folder}/onnx/model.onnx`));
  const found = { greedy: 0, beams: 0, pastTheEnd: 0, topK: 0, filtered: 0 };
  for (const { folder, card, arrays } of written) {
    const graph = await AutoModelForCausalLM.from_pretrained(`${folder}/onnx`, { dtype: "fp32", subfolder: "" });
    const options = { do_sample: false, repetition_penalty: 1.0, max_new_tokens: card.new_tokens };
    const greedy = await continued(graph, arrays.prompts, options);
    found.greedy += differentRows(greedy, arrays.greedy);
    found.pastTheEnd += greedy.filter((row) => row.slice(0, -1).includes(card.roles.eos)).length;
    const beams = await continued(graph, arrays.prompts, { ...options, num_beams: 5 });
    found.beams += differentRows(beams, arrays.beams);
    found.topK += await otherDraws(graph, arrays.prompts[0], { top_k: 1 });
    for (const filter of [{ top_p: 1e-6 }, { min_p: 1.0 }]) {
      found.filtered += await otherDraws(graph, arrays.prompts[0], filter);
    }
  }
  print(tool, "greedy, 20 tokens, graphs by optimum", written.length, found.greedy, "texts that differ", 0);
  print(tool, "draws with top_k=1", written.length, found.topK, "draws of another token", 0);
  print(
    tool, "draws with top_p=1e-6 or min_p=1, which allow one token", written.length, found.filtered,
    "draws of another token", null,
    "`generate()` ignores `top_p` and `min_p`, and so the default recipe's filter: set `top_k` instead.",
  );
  print(
    tool, "best of 5 beams", written.length, found.beams, "texts that differ", null,
    "`generate()` ignores `num_beams` and returns the greedy text.",
  );
  print(
    tool, "texts of a batch after their end", written.length, found.pastTheEnd, "texts that go on", null,
    "A batch goes on until all its texts end in the same step: cut each text at its first `<eos>`.",
  );
}

/** The greedy continuation of a prompt, up to and with the end of a text; then -1. */
async function greedy(model, card, prompt, count) {
  const context = await model.createContext({ contextSize: card.model.context });
  const tokenBias = new TokenBias(model.tokenizer);
  for (const id of card.banned) tokenBias.set(id, "never");
  const found = [];
  const options = { temperature: 0, tokenBias, yieldEogToken: true };
  for await (const id of context.getSequence().evaluate(prompt, options)) {
    found.push(id);
    if (found.length === count || id === card.roles.eos) break;
  }
  await context.dispose();
  return [...found, ...Array(count - found.length).fill(-1)];
}

async function checkLlama(models) {
  const tool = "node-llama-cpp";
  const llama = await getLlama({ build: "never", gpu: false, skipDownload: true, logLevel: "error" });
  const spelled = models.filter(
    ({ card }) => card.formats.includes("gguf") && ["bpe", "gpt2"].includes(card.tokenizer.kind) && !card.tokenizer.lower_case,
  );
  let ofTexts = 0;
  let tokens = 0;
  for (const { folder, card, arrays } of spelled) {
    const model = await llama.loadModel({ modelPath: `${folder}/model-F32.gguf` });
    for (const [text, ids, decoded] of card.texts) {
      ofTexts += text === decoded && !same(model.tokenize(text), ids);
    }
    for (const [row, prompt] of arrays.prompts.entries()) {
      const wanted = arrays.greedy[row];
      const found = await greedy(model, card, prompt, wanted.length);
      tokens += found.filter((id, place) => id !== wanted[place]).length;
    }
    await model.dispose();
  }
  print(
    tool, "ids of texts (bpe, gpt2)", spelled.length, ofTexts, "texts that differ", 0,
    "`tokenize()` omits `<sos>`: put `model.tokens.bos` before the ids.",
  );
  print(tool, "greedy, 20 tokens", spelled.length, tokens, "tokens that differ", 0);
}

const models = writtenModels();
checkTokenizers(models);
await checkTransformers(models);
await checkGenerate(models);
await checkLlama(models);
process.exit(failed ? 1 : 0);
