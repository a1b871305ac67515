// Beam search, a step at a time so that it can be watched (tinylm/decoding/beam_search.py).
import { largest } from "./decoding.js";
import { Session } from "./session.js";

function logSoftmax(logits) {
  let top = -Infinity;
  let sum = 0;
  for (const value of logits) top = Math.max(top, value);
  for (const value of logits) sum += Math.exp(value - top);
  const norm = top + Math.log(sum);
  return (id) => logits[id] - norm;
}

export class BeamSearch {
  // rules: width, length (most new tokens), alpha (log-probability / tokens ** alpha), eos (null:
  // no token ends a text), banned, slide. The search keeps `width` hypotheses.
  constructor(model, ids, rules) {
    Object.assign(this, { rules, length: 0, done: rules.length < 1, hypotheses: [] });
    const session = new Session(model, ids, { slide: rules.slide });
    this.live = this.done ? [] : [{ session, ids: [], logProb: 0 }];
  }

  // The likeliest `width + 1` texts that go on from a live beam
  candidates({ session, ids, logProb }, beam) {
    const { width, banned } = this.rules;
    const logits = session.next();
    const logProbOf = logSoftmax(logits);
    for (const id of banned) logits[id] = -Infinity;
    const best = largest(logits, width + 1).filter((id) => logits[id] > -Infinity);
    return best.map((token) => {
      return { beam, token, ids: [...ids, token], logProb: logProb + logProbOf(token) };
    });
  }

  // Grow every live beam by one token.
  step() {
    const { width, eos, length: most, alpha } = this.rules;
    this.length += 1;
    const candidates = this.live.flatMap((beam, index) => this.candidates(beam, index));
    candidates.sort((one, other) => other.logProb - one.logProb || one.beam - other.beam);
    const ranked = candidates.slice(0, 2 * width);
    ranked.slice(0, width).forEach((one) => {
      if (one.token === eos) this.keep(one);
    });
    const next = ranked.filter(({ token }) => token !== eos).slice(0, width);
    if (this.length === most) {
      next.forEach((one) => this.keep(one));
      return this.end();
    }
    this.live = next.map(({ beam, token, ids, logProb }) => {
      const session = this.live[beam].session.fork();
      session.push(token);
      return { session, ids, logProb };
    });
    const bound = next.length ? next[0].logProb / most ** alpha : -Infinity;
    if (!next.length || (this.isFull() && bound <= this.hypotheses.at(-1).score)) this.end();
  }

  isFull() {
    return this.hypotheses.length === this.rules.width;
  }

  keep({ ids, logProb }) {
    const score = logProb / this.length ** this.rules.alpha;
    if (this.isFull() && score <= this.hypotheses.at(-1).score) return;
    this.hypotheses.push({ ids, logProb, score });
    this.hypotheses.sort((one, other) => other.score - one.score);
    this.hypotheses.length = Math.min(this.hypotheses.length, this.rules.width);
  }

  end() {
    this.live = [];
    this.done = true;
  }
}
