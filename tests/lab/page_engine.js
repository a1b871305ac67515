// What tests call of the page's modules, which stand above this in one script.
let model, tokenizer, facts;
function open(factsText) {
  facts = JSON.parse(factsText);
  tokenizer = openTokenizer(facts.tokenizer);
  model = new Model(facts.settings, readTensors(facts, facts.checkpoints[facts.trained]));
}
function rules() {
  const { banned, eos_id: eos } = facts.tokenizer;
  return { topK: 0, topP: 1, minP: 0, eta: 0, fallback: 0, penalty: 1, window: null, temperature: 0, banned, eos };
}
function logits(ids) {
  return Array.from(new Session(model, ids, { slide: facts.slide }).next());
}
function greedy(ids, count) {
  const session = new Session(model, ids, { slide: facts.slide });
  const all = { ...rules(), eos: null };
  for (let i = 0; i < count; i++) session.push(draw(nextChances(session.next(), session.ids, all), 0));
  return session.ids.slice(ids.length);
}
function beams(ids, width, length, alpha) {
  const search = new BeamSearch(model, ids, { ...rules(), width, length, alpha, slide: facts.slide });
  while (!search.done) search.step();
  return search.hypotheses.map(({ ids, logProb, score }) => ({ ids, logProb, score }));
}
function look(ids) {
  const session = new Session(model, ids, { slide: facts.slide, record: true });
  session.advance();
  return session.seen.map(({ maps }) => maps.map((layer) => layer.map((head) => Array.from(head))));
}
