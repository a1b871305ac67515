// A text in progress: its window, its cache, and what the model saw at each token (tinylm/decoding/session.py).

export function windowStart(count, context, slide) {
  const step = slide === "half" ? Math.floor(context / 2) : 1;
  return Math.max(0, Math.ceil((count - context) / step) * step);
}

export class Session {
  // record: keep the attention weights and the states of every token of the window
  constructor(model, ids, { slide = "half", cached = true, record = false } = {}) {
    Object.assign(this, { model, ids: [...ids], slide, cached, record, start: -1, cache: model.newCache() });
    this.seen = []; // one entry a token of the window: {maps, states, hidden}
  }

  // Read what is new. The window's entries in `seen` are whole after it.
  advance() {
    const { model, ids } = this;
    const start = windowStart(ids.length, model.settings.context, this.slide);
    if (start !== this.start || !this.cached) {
      this.cache.used = 0;
      this.seen = [];
    }
    this.start = start;
    for (let at = start + this.cache.used; at < ids.length; at++) {
      const seen = this.record ? { maps: [], states: [] } : null;
      const hidden = model.step(this.cache, ids[at], seen);
      this.seen.push({ ...seen, hidden });
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

  // Make this the session of another text; what both begin with is not read again.
  become(ids) {
    let same = 0;
    while (same < ids.length && same < this.ids.length && ids[same] === this.ids[same]) same += 1;
    this.ids = [...ids];
    this.cache.used = Math.min(this.cache.used, Math.max(0, same - Math.max(this.start, 0)));
    this.seen.length = this.cache.used;
  }

  // What was kept of the token at this place of the text; undefined outside the window
  at(position) {
    return this.seen[position - this.start];
  }

  // A second text with the same tokens so far
  fork() {
    const other = new Session(this.model, this.ids, this);
    this.model.copyCache(this.cache, other.cache);
    other.start = this.start;
    other.seen = [...this.seen];
    return other;
  }

  close() {
    this.model.free(this.cache);
  }
}
