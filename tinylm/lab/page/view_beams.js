// Beam search step by step, compared with greedy decoding and a sample.
import { BeamSearch } from "./beams.js";
import { $, make, numberIn, pause, percent, startStop } from "./dom.js";
import { continuation } from "./session.js";

export function bindBeams(lab, token) {
  // A narrow screen shows the name before the number, since the table's head has no room there.
  const number = (name, value) => make("td", { className: "number", "data-name": name }, value);

  function resultRow(name, from, { ids, logProb }) {
    const text = lab.tokenizer.decode(ids) || "(ends at once)";
    const use = make("button", { type: "button", title: "Go on from this text" }, text);
    use.addEventListener("click", () => lab.replace([...from, ...ids]));
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, name),
      make("td", { className: "text" }, use),
      number(`per ${token}`, percent(Math.exp(logProb / ids.length))),
      number("log-probability", logProb.toFixed(2).replace("-", "\u2212")),
    );
  }

  function showTable(rows) {
    const names = ["Method", "Text", `average per ${token}`, "log-probability"];
    const top = make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, name)));
    $("beam-table").replaceChildren(make("thead", {}, top), make("tbody", {}, ...rows));
  }

  // The search goes on after the chosen token, otherwise after the prompt.
  async function run(goesOn) {
    const from = lab.ids.slice(0, lab.chosen === null ? lab.given : lab.chosen + 1);
    const { model } = lab;
    const { temperature } = lab.rules;
    const [width, length, alpha] = ["width", "beam-length", "alpha"].map((id) => numberIn(id) ?? 1);
    const { banned, eos_id: eos } = lab.tokenizer.rule;
    const rules = { width, length, alpha, banned, slide: lab.facts.slide };
    const search = new BeamSearch(model, from, { ...rules, eos: lab.rules.stop ? eos : null });
    const rowsOf = (name, texts) =>
      texts.map((text, rank) => resultRow(`${name} ${rank + 1}`, from, text));
    while (!search.done && goesOn()) {
      search.step();
      const ended = rowsOf("ended, rank", search.hypotheses);
      showTable([...rowsOf("live beam", search.live), ...ended]);
      $("beams-state").textContent = `Step ${search.length} of ${length}.`;
      await pause(90);
    }
    const end = search.done ? "Done" : "Stopped";
    $("beams-state").textContent = `${end} after ${search.length} of at most ${length} steps.`;
    const rulesOfSample = lab.drawRules();
    const rulesOfGreedy = { ...rulesOfSample, temperature: 0, penalty: 1 };
    const greedy = continuation(model, from, length, rulesOfGreedy);
    const sample = continuation(model, from, length, rulesOfSample);
    showTable([
      resultRow("greedy", from, greedy),
      resultRow(`sample, temperature ${temperature}`, from, sample),
      ...rowsOf("beam search, rank", search.hypotheses),
    ]);
  }

  $("alpha").value = lab.facts.length_penalty;
  for (const id of ["width", "alpha"]) {
    const show = () => ($(`${id}-value`).textContent = $(id).value);
    $(id).addEventListener("input", show);
    show();
  }
  startStop("beams-run", () => lab.ids.length, run);
}
