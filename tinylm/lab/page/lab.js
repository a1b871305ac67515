// The state of the page: the model of a checkpoint, the text, and the chosen token.
import { draw, nextChances, uniform } from "./decoding.js";
import { Model, softmax } from "./model.js";
import { Session, windowStart } from "./session.js";
import { readTensors } from "./weights.js";

export class Lab {
  constructor(facts, tokenizer) {
    Object.assign(this, { facts, tokenizer });
    this.models = []; // of the checkpoints that were looked at
    this.off = new Set(); // heads that are switched off, as layer.head from 0
    this.watchers = [];
    this.ids = [];
    this.given = 0; // tokens of the prompt
    this.chosen = null; // position of the chosen token, null: the token that comes next
    this.rules = { ...facts.rules };
    this.head = [0, 0]; // [layer, head] that shades the story
    this.useCheckpoint(facts.trained);
  }

  watch(watcher) {
    this.watchers.push(watcher);
  }

  changed() {
    for (const watcher of this.watchers) watcher();
  }

  modelOf(checkpoint) {
    if (!this.models[checkpoint]) {
      const tensors = readTensors(this.facts, this.facts.checkpoints[checkpoint]);
      this.models[checkpoint] = new Model(this.facts.settings, tensors);
      this.models[checkpoint].off = this.off;
    }
    return this.models[checkpoint];
  }

  useCheckpoint(checkpoint) {
    this.checkpoint = checkpoint;
    this.model = this.modelOf(checkpoint);
    this.open();
  }

  // A fresh session: the whole text is read again.
  open() {
    const { slide } = this.facts;
    this.session = new Session(this.model, this.ids, { slide, record: true });
    this.intact = new Session(this.model.withOff(new Set()), this.ids, { slide }); // every head on
    this.changed();
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

  switchAllOn() {
    this.off.clear();
    this.open();
  }

  // Begin a new text.
  start(prompt) {
    const { sos_id: sos } = this.tokenizer.rule;
    const ids = [...(sos === null ? [] : [sos]), ...this.tokenizer.encode(prompt.trim())];
    this.replace(ids, ids.length);
  }

  // Show other tokens.
  replace(ids, given = Math.min(this.given, ids.length)) {
    Object.assign(this, { ids, given, chosen: null });
    this.changed();
  }

  choose(position) {
    const isToken = position !== null && position < this.ids.length;
    this.chosen = isToken ? Math.max(0, position) : null;
    this.changed();
  }

  undo() {
    if (this.ids.length > this.given) this.ids = this.ids.slice(0, -1);
    this.choose(null);
  }

  // Whether a text ends with this token
  isEnd(id) {
    return this.rules.stop && id === this.tokenizer.rule.eos_id;
  }

  get ended() {
    return this.ids.length > this.given && this.isEnd(this.ids.at(-1));
  }

  // What the model saw at each token of the text; null without any token
  read() {
    if (!this.ids.length) return null;
    this.session.become(this.ids);
    this.session.advance();
    return this.session;
  }

  // The position whose prediction the views show: of the chosen token, otherwise of the next one,
  // or of the last one where the text has ended
  get looked() {
    const next = this.ended ? this.ids.length - 1 : this.ids.length;
    return this.chosen ?? next;
  }

  // Chances at a position, by default of the next token; null if the window does not reach there
  chances(position = this.ids.length) {
    const hidden = this.read()?.at(position - 1)?.hidden;
    if (!hidden) return null;
    return nextChances(this.model.logits(hidden), this.ids.slice(0, position), this.drawRules());
  }

  // The model's own chances at a position with these heads off, from the start of the window that the
  // views show; null without an earlier token in it
  chancesWithout(off, position) {
    const start = this.read()?.start ?? 0;
    if (position <= start) return null;
    const model = this.model.withOff(off);
    const session = new Session(model, this.ids.slice(start, position), { slide: this.facts.slide });
    return softmax(session.next());
  }

  drawRules() {
    const { banned, eos_id: eos } = this.tokenizer.rule;
    return { ...this.rules, banned, eos, slide: this.facts.slide };
  }

  // The model's own chances at a position; null without an earlier token in its window
  ownChances(position) {
    const hidden = position > 0 ? this.read()?.at(position - 1)?.hidden : null;
    return hidden ? softmax(this.model.logits(hidden)) : null;
  }

  // The same with every head on
  intactChances(position) {
    if (!this.off.size) return this.ownChances(position);
    this.intact.become(this.ids);
    this.intact.advance();
    const hidden = position > 0 ? this.intact.at(position - 1)?.hidden : null;
    return hidden ? softmax(this.model.logits(hidden)) : null;
  }

  // What the model gave to the token at a position; null without an earlier token in its window
  chanceOf(position) {
    return this.ownChances(position)?.[this.ids[position]] ?? null;
  }

  // Append the next token. The same seed, settings and choices give the same text.
  grow() {
    const token = draw(this.chances(), uniform(this.rules.seed, this.ids.length - this.given));
    this.ids = [...this.ids, token];
    this.chosen = null;
  }

  // Number of tokens, special ones but <unk> left out
  count() {
    const { specials, unk_id: unknown } = this.tokenizer.rule;
    return this.ids.filter((id) => id === unknown || !specials.includes(id)).length;
  }

  windowStart() {
    return windowStart(this.ids.length, this.model.settings.context, this.facts.slide);
  }

  // A token as it is shown: the bare word, or a visible sign for what is not text
  word(id) {
    const { rule } = this.tokenizer;
    const token = rule.shown[id] ?? rule.tokens[id];
    if (rule.kind === "words" || rule.specials.includes(id)) return token;
    return token.replaceAll("\u0120", "\u00b7").replaceAll("\u010a", "\u21b5");
  }

  // A head, given as layer.head from 0
  headName(name) {
    const [layer, head] = name.split(".").map(Number);
    return `layer ${layer + 1}, head ${head + 1}`;
  }

  // The token at a position in quotation marks
  quoted(position) {
    return `\u201c${this.word(this.ids[position])}\u201d`;
  }
}
