// A text in progress: its window, its cache, and what the model saw at each token
// (tinylm/decoding/session.py).
import { draw, nextChances, uniform } from "./decoding.js";

export function windowStart(count, context, slide) {
  const step = slide === "half" ? Math.floor(context / 2) : 1;
  return Math.max(0, Math.ceil((count - context) / step) * step);
}

export class Session {
  // record: keep the attention weights of every token of the window
  constructor(model, ids, { slide = "half", record = false } = {}) {
    this.model = model;
    this.ids = [...ids];
    this.slide = slide;
    this.record = record;
    this.start = 0; // of the window
    this.cache = model.newCache();
    this.seen = []; // one entry a token of the window: {hidden, maps (if recorded)}
  }

  // Read the tokens that are new.
  advance() {
    const { model, ids } = this;
    const start = windowStart(ids.length, model.settings.context, this.slide);
    if (start !== this.start) {
      this.cache = model.newCache();
      this.seen = [];
      this.start = start;
    }
    for (const id of ids.slice(start + this.seen.length)) {
      const maps = this.record ? [] : null;
      const hidden = model.step(this.cache, id, maps);
      this.seen.push({ hidden, maps });
    }
  }

  // Logits of the token after the last one
  next() {
    this.advance();
    return this.model.logits(this.seen.at(-1).hidden);
  }

  push(token) {
    this.ids.push(token);
  }

  // Make this the session of another text; the common beginning is not read again.
  become(ids) {
    let same = 0;
    while (same < ids.length && ids[same] === this.ids[same]) same += 1;
    this.ids = [...ids];
    this.seen = this.seen.slice(0, Math.max(0, same - this.start));
    for (const rows of this.cache) rows.length = this.seen.length;
  }

  // What the model saw at a position of the text; undefined outside the window
  at(position) {
    return this.seen[position - this.start];
  }

  // A second text with the same tokens so far
  fork() {
    const { slide, record } = this;
    const other = new Session(this.model, this.ids, { slide, record });
    other.start = this.start;
    other.cache = this.cache.map((rows) => [...rows]);
    other.seen = [...this.seen];
    return other;
  }
}

// A text by the rules' sampling (temperature 0: greedy decoding): new ids and log-probability.
export function continuation(model, from, length, rules) {
  const session = new Session(model, from, { slide: rules.slide });
  let logProb = 0;
  for (let n = 0; n < length; n++) {
    const chances = nextChances(session.next(), session.ids, rules);
    const id = draw(chances, uniform(rules.seed, n));
    logProb += Math.log(chances.before[id]);
    session.push(id);
    if (rules.stop && id === rules.eos) break;
  }
  return { ids: session.ids.slice(from.length), logProb };
}
