// The state of the page: the model of a checkpoint, the text, what is chosen in it, and the texts that were left.
import { draw, nextChances, randomNumbers } from "./decoding.js";
import { Model } from "./model.js";
import { Session, windowStart } from "./session.js";

export class Lab {
  // tensors: for each checkpoint of training, the last one the trained model, a promise of name -> {shape, data}
  constructor(facts, tokenizer, tensors) {
    Object.assign(this, { facts, tokenizer, tensors });
    this.models = [];
    this.off = new Set(); // heads that are switched off, as layer.head from 0
    this.watchers = [];
    this.branches = [];
    this.ids = [];
    this.given = 0; // tokens of the prompt
    this.chosen = null; // place of the chosen token, null: the token that comes next
    this.rules = { ...facts.rules };
    this.head = facts.head; // [layer, head] that shades the story
    this.stream = { seed: null, numbers: [] };
  }

  watch(watcher) {
    this.watchers.push(watcher);
  }

  changed() {
    for (const watcher of this.watchers) watcher();
  }

  async useCheckpoint(checkpoint) {
    this.models[checkpoint] ??= this.build(await this.tensors[checkpoint]());
    this.checkpoint = checkpoint;
    this.model = this.models[checkpoint];
    this.open();
  }

  // A fresh session: the whole text is read again.
  open() {
    this.session?.close();
    this.session = new Session(this.model, this.ids, { slide: this.facts.slide, record: true });
    this.changed();
  }

  build(tensors) {
    const model = new Model(this.facts.settings, tensors);
    model.off = this.off;
    return model;
  }

  lookAt(layer, head) {
    this.head = [layer, head];
    this.changed();
  }

  switchHead(name, on) {
    if (on) this.off.delete(name);
    else this.off.add(name);
    this.open();
  }

  // A prompt in place of the text
  start(text) {
    const { sos_id: sos } = this.tokenizer.rule;
    const ids = [...(sos === null ? [] : [sos]), ...this.tokenizer.encode(text)];
    this.replace(ids, ids.length);
  }

  // Show other tokens. The text that they replace stays as a branch if it has generated tokens that they lack.
  replace(ids, given = Math.min(this.given, ids.length)) {
    const begins = (text, start) => start.every((id, position) => text[position] === id);
    const isCurrent = (branch) => branch.ids.length === this.ids.length && begins(branch.ids, this.ids);
    if (this.ids.length > this.given && !begins(ids, this.ids) && !this.branches.some(isCurrent)) {
      this.branches = [{ ids: this.ids, given: this.given }, ...this.branches];
    }
    Object.assign(this, { ids, given, chosen: null });
    this.changed();
  }

  goTo(branch) {
    this.branches = this.branches.filter((one) => one !== branch);
    this.replace(branch.ids, branch.given);
  }

  choose(position) {
    this.chosen = position === null || position >= this.ids.length ? null : Math.max(0, position);
    this.changed();
  }

  undo() {
    if (this.ids.length > this.given) this.ids = this.ids.slice(0, -1);
    this.chosen = null;
    this.changed();
  }

  get ended() {
    const { eos_id: eos } = this.tokenizer.rule;
    return this.rules.stop && eos !== null && this.ids.length > this.given && this.ids.at(-1) === eos;
  }

  // What the model saw at each token of the text, read as far as it is new; null without any token
  read() {
    if (!this.ids.length) return null;
    this.session.become(this.ids);
    this.session.advance();
    return this.session;
  }

  // Chances in the place of a token (by default the next one); null if what comes before it is not in the window
  chances(position = this.ids.length) {
    const hidden = this.read()?.at(position - 1)?.hidden;
    if (!hidden) return null;
    return nextChances(this.model.logits(hidden), this.ids.slice(0, position), this.drawRules());
  }

  drawRules() {
    const { banned, eos_id: eos } = this.tokenizer.rule;
    return { ...this.rules, banned, eos };
  }

  // The random number of the n-th new token: the same seed, settings and choices give the same text.
  uniform(n) {
    if (this.stream.seed !== this.rules.seed) {
      this.stream = { seed: this.rules.seed, numbers: [], next: randomNumbers(this.rules.seed) };
    }
    while (this.stream.numbers.length <= n) this.stream.numbers.push(this.stream.next());
    return this.stream.numbers[n];
  }

  // Append the next token by the rules; returns its log-probability under the model.
  grow() {
    const chances = this.chances();
    const token = draw(chances, this.uniform(this.ids.length - this.given));
    this.ids = [...this.ids, token];
    this.chosen = null;
    return Math.log(chances.before[token]);
  }

  // Tokens before a place, special ones but <unk> left out
  counted(position = this.ids.length) {
    const { specials, unk_id: unknown } = this.tokenizer.rule;
    return this.ids.slice(0, position).filter((id) => id === unknown || !specials.includes(id)).length;
  }

  // The token at a place as a sentence calls it, with its number unless it is special
  named(position) {
    const word = `\u201c${this.word(this.ids[position])}\u201d`;
    const number = this.counted(position + 1);
    return number > this.counted(position) ? `${word} (${this.facts.token} ${number} of ${this.counted()})` : word;
  }

  windowStart() {
    return windowStart(this.ids.length, this.model.settings.context, this.facts.slide);
  }

  // A token as it is shown: the bare word, or a visible sign for what is not text
  word(id) {
    const { rule } = this.tokenizer;
    const token = rule.tokens[id];
    if (rule.kind === "words" || rule.specials.includes(id)) return token;
    return token.replaceAll("\u0120", "\u00b7").replaceAll("\u010a", "\u21b5");
  }
}
