// From logits to the next token: tinylm/decoding/filters.py and sampling.py in JavaScript.
import { softmax } from "./model.js";

const FALLBACK_TOP_P = 0.9; // as in tinylm/decoding/settings.py

// The n-th random number in [0, 1) of a seed: a counter, mixed by multiplications and shifts
// (the finalizer of MurmurHash3, Appleby)
export function uniform(seed, n) {
  let x = Math.imul(seed, 0x9e3779b1) + Math.imul(n + 1, 0x6d2b79f5);
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return ((x ^ (x >>> 16)) >>> 0) / 2 ** 32;
}

// Ids of the `count` largest, best first, the lower id of equal ones first
export function largest(scores, count) {
  if (count > 200) {
    const ids = Array.from(scores.keys());
    return ids.sort((a, b) => scores[b] - scores[a] || a - b).slice(0, count);
  }
  const best = [];
  let least = -Infinity; // the score that an id must beat once `count` are there
  for (let id = 0; id < scores.length; id++) {
    if (best.length === count && !(scores[id] > least)) continue;
    let rank = Math.min(best.length, count - 1);
    for (; rank > 0 && scores[id] > scores[best[rank - 1]]; rank--) best[rank] = best[rank - 1];
    best[rank] = id;
    if (best.length === count) least = scores[best[count - 1]];
  }
  return best;
}

// Make the tokens of the text less likely. window: only its latest tokens; null: all
function penalise(scores, ids, { penalty, window, eos }) {
  const recent = window ? ids.slice(-window) : ids;
  for (const id of new Set(recent)) {
    if (id !== eos) scores[id] = scores[id] > 0 ? scores[id] / penalty : scores[id] * penalty;
  }
}

// The fewest of the likeliest tokens whose chances sum to p or more
function nucleus(ids, chances, p) {
  let held = 0;
  const last = chances.findIndex((chance) => (held += chance) >= p);
  return last < 0 ? ids : ids.slice(0, last + 1);
}

// The tokens with a chance of at least eta, or less where many are likely (Hewitt et al. 2022)
function likelyEnough(ids, chances, eta) {
  const entropy = chances.reduce((sum, chance) => (chance > 0 ? sum - chance * Math.log(chance) : sum), 0);
  const least = Math.min(eta, Math.sqrt(eta) * Math.exp(-entropy));
  return ids.filter((id, rank) => rank === 0 || chances[rank] >= least);
}

// The ids that may be drawn, best first.
// fallback: where the topK likeliest hold less than this, the nucleus of all tokens takes their place
function candidatesOf(scores, { temperature, topK, topP, minP, eta, fallback }) {
  const allowed = (ids) => ids.filter((id) => scores[id] > -Infinity);
  if (temperature === 0) return allowed(largest(scores, 1));
  const chancesOf = (ids) => softmax(ids.map((id) => (scores[id] - scores[ids[0]]) / temperature));
  const isCut = topK > 0 && topK < scores.length;
  const best = allowed(largest(scores, isCut ? topK : scores.length));
  if (isCut && fallback > 0) {
    const all = allowed(largest(scores, scores.length));
    const chances = chancesOf(all);
    const held = chances.slice(0, best.length).reduce((sum, chance) => sum + chance, 0);
    if (held < fallback) return nucleus(all, chances, FALLBACK_TOP_P);
  }
  const likely = topP < 1 ? nucleus(best, chancesOf(best), topP) : best;
  const least = Math.log(minP); // of the chances' ratio to the likeliest
  const kept = likely.filter((id) => (scores[id] - scores[likely[0]]) / temperature >= least);
  return eta > 0 ? likelyEnough(kept, chancesOf(kept), eta) : kept;
}

// Chances of the next token before and after penalty, temperature and filters; temperature 0
// leaves the likeliest. rules: temperature, topK (0: all), topP (1: all), minP (0: all), eta (0: all),
// fallback (0: none), penalty (1: none), window of the penalty, banned ids, and the id `eos` that is never penalised.
// -> {before, after (V), candidates: ids that may be drawn, best first, cut: the mass of `before`
// outside them}
export function nextChances(logits, ids, rules) {
  const before = softmax(logits);
  const scores = Float64Array.from(logits);
  if (rules.penalty !== 1) penalise(scores, ids, rules);
  for (const id of rules.banned) scores[id] = -Infinity;
  const candidates = candidatesOf(scores, rules);
  const top = scores[candidates[0]];
  const spread = rules.temperature || 1;
  const chances = softmax(candidates.map((id) => (scores[id] - top) / spread));
  const after = new Float64Array(scores.length);
  candidates.forEach((id, rank) => (after[id] = chances[rank]));
  const inside = candidates.reduce((sum, id) => sum + before[id], 0);
  return { before, after, candidates, cut: Math.max(0, 1 - inside) };
}

// The token at the place u of the chances, summed in the order of ids
export function draw({ after, candidates }, u) {
  const ids = [...candidates].sort((one, other) => one - other);
  let sum = 0;
  for (const id of ids) {
    sum += after[id];
    if (u < sum) return id;
  }
  return candidates[0]; // only where rounding left the sum below u
}
