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
    this.root = { token: null, total: 0, children: [] };
    this.live = this.done ? [] : [{ session: new Session(model, ids, rules), node: this.root }];
  }

  // The likeliest `width + 1` tokens after a live beam
  candidates({ session, node }, beam) {
    const { width, banned } = this.rules;
    const logits = session.next();
    const logProb = logSoftmax(logits);
    for (const id of banned) logits[id] = -Infinity;
    const best = largest(logits, width + 1).filter((id) => logits[id] > -Infinity);
    return best.map((token) => {
      return { beam, token, parent: node, total: node.total + logProb(token) };
    });
  }

  // Grow every live beam by one token. Nodes get `state`: live | finished | dropped.
  step() {
    const { width, eos, length: most, alpha } = this.rules;
    this.length += 1;
    const candidates = this.live.flatMap((beam, index) => this.candidates(beam, index));
    candidates.sort((one, other) => other.total - one.total || one.beam - other.beam);
    const ranked = candidates.slice(0, 2 * width);
    for (const one of ranked.slice(0, width)) {
      if (one.token === eos) this.keep(this.grow(one, "finished"));
    }
    const next = ranked.filter(({ token }) => token !== eos).slice(0, width);
    const nodes = next.map((one) => this.grow(one, "live"));
    if (this.length === most) {
      nodes.forEach((node) => this.keep(node));
      return this.end();
    }
    this.carry(next, nodes);
    const bound = nodes.length ? nodes[0].total / most ** alpha : -Infinity;
    if (!nodes.length || (this.isFull() && bound <= this.hypotheses.at(-1).score)) this.end();
  }

  isFull() {
    return this.hypotheses.length === this.rules.width;
  }

  grow({ token, parent, total }, state) {
    const node = { token, parent, total, state, children: [] };
    parent.children.push(node);
    return node;
  }

  keep(node) {
    const score = node.total / this.length ** this.rules.alpha;
    if (this.isFull() && score <= this.hypotheses.at(-1).score) return;
    const ids = [];
    for (let at = node; at.parent; at = at.parent) ids.unshift(at.token);
    this.hypotheses.push({ ids, logProb: node.total, score, node });
    this.hypotheses.sort((one, other) => other.score - one.score);
    this.hypotheses.length = Math.min(this.hypotheses.length, this.rules.width);
  }

  // Each new node becomes a live beam; beams without one are dropped.
  carry(next, nodes) {
    this.live.forEach(({ node }, beam) => {
      if (!next.some((one) => one.beam === beam)) node.state = "dropped";
    });
    this.live = next.map(({ beam, token }, rank) => {
      const session = this.live[beam].session.fork();
      session.push(token);
      return { session, node: nodes[rank] };
    });
  }

  end() {
    this.live = [];
    this.done = true;
  }
}
