// What tests and `make bench LINES=lab` ask of the page's modules, which stand above this in one script.
const bytes = (text) => Uint8Array.from(text, (one) => one.charCodeAt(0));
let model, tokenizer, facts;
function open(factsText, weights) {
  facts = JSON.parse(factsText);
  tokenizer = openTokenizer(facts.tokenizer);
  const tensors = readTensors(facts.checkpoints.at(-1).tensors, bytes(weights));
  model = new Model(facts.settings, tensors);
}
function rules() {
  const { banned, eos_id: eos } = facts.tokenizer;
  return { topK: 0, topP: 1, penalty: 1, temperature: 0, banned, eos };
}
function logits(ids) {
  const session = new Session(model, ids, { slide: facts.slide });
  const values = Array.from(session.next());
  session.close();
  return values;
}
function generate(ids, count, changes, cached = true) {
  const session = new Session(model, ids, { slide: facts.slide, cached });
  const random = randomNumbers(changes.seed ?? 1);
  const all = { ...rules(), ...changes };
  for (let i = 0; i < count; i++) session.push(draw(nextChances(session.next(), session.ids, all), random()));
  session.close();
  return session.ids.slice(ids.length);
}
function nats(ids) {
  const session = new Session(model, ids.slice(0, 1), { slide: facts.slide });
  let sum = 0;
  for (const id of ids.slice(1)) {
    sum -= Math.log(softmax(session.next())[id]);
    session.push(id);
  }
  session.close();
  return sum;
}
function beams(ids, width, length, alpha) {
  const search = new BeamSearch(model, ids, { ...rules(), width, length, alpha, slide: facts.slide });
  while (!search.done) search.step();
  return search.hypotheses.map(({ ids, logProb, score }) => ({ ids, logProb, score }));
}
function look(ids) {
  const session = new Session(model, ids, { slide: facts.slide, record: true });
  session.advance();
  const maps = session.seen.map(({ maps }) => maps.map((layer) => layer.map((head) => Array.from(head))));
  const states = session.seen.map(({ states }) => states.map((state) => Array.from(model.lens(state))));
  session.close();
  return { maps, states };
}
