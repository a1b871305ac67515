// Beam search drawn as a tree while it grows, compared with greedy decoding and a sample.
import { BeamSearch } from "./beams.js";
import { $, make, numberIn, pause, percent, startStop, svg } from "./dom.js";
import { continuation } from "./session.js";

const COLUMN = 92; // pixels
const ROW = 20;
const MOST_LETTERS = 9;

export function bindBeams(lab, token) {
  function drawWord(node, x, kind) {
    const word = node.token === null ? "\u2026" : lab.word(node.token);
    const isLong = word.length > MOST_LETTERS;
    const shown = isLong ? `${word.slice(0, MOST_LETTERS - 1)}\u2026` : word;
    const title = svg("title", {}, `${word}: up to here ${percent(Math.exp(node.total))}`);
    return svg("text", { x, y: node.y, class: kind }, shown, title);
  }

  // Leaves get a row each, in order; a parent stands at its first child.
  function drawTree(search) {
    const best = new Set();
    const last = search.hypotheses[0]?.node ?? search.live[0]?.node;
    for (let node = last; node; node = node.parent) best.add(node);
    const words = [];
    const lines = [];
    let row = 0;
    const place = (node, depth) => {
      const x = 4 + depth * COLUMN;
      node.y = ROW * (row + 0.7);
      words.push(drawWord(node, x, best.has(node) ? "best" : node.state));
      for (const child of node.children) {
        place(child, depth + 1);
        const points = `${x + COLUMN - 24},${node.y - 4} ${x + COLUMN - 2},${child.y - 4}`;
        lines.push(svg("polyline", { points, class: best.has(child) ? "best" : "" }));
      }
      if (!node.children.length) row += 1;
    };
    place(search.root, 0);
    const width = (search.length + 1) * COLUMN + 8;
    $("tree").setAttribute("width", width);
    $("tree").setAttribute("height", row * ROW + 8);
    $("tree").setAttribute("aria-label", `Tree of ${search.length} steps with ${row} ends`);
    $("tree").replaceChildren(...lines, ...words);
    $("tree").parentElement.scrollLeft = width;
  }

  function resultRow(name, from, { ids, logProb }) {
    const text = lab.tokenizer.decode(ids) || "(ends at once)";
    const use = make("button", { type: "button", title: "Go on from this text" }, text);
    use.addEventListener("click", () => lab.replace([...from, ...ids]));
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, name),
      make("td", { className: "text" }, use),
      make("td", {}, percent(Math.exp(logProb / ids.length))),
      make("td", {}, logProb.toFixed(2)),
    );
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
    while (!search.done && goesOn()) {
      search.step();
      drawTree(search);
      const live = `${search.live.length} live beams`;
      $("beams-state").textContent = `Step ${search.length} of ${length}: ${live}.`;
      await pause(90);
    }
    const end = search.done ? "Done" : "Stopped";
    $("beams-state").textContent = `${end} after ${search.length} of at most ${length} steps.`;
    $("tree").parentElement.scrollLeft = 0;
    const names = ["Method", "Text", `average per ${token}`, "log-probability"];
    const top = make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, name)));
    const rulesOfSample = lab.drawRules();
    const rulesOfGreedy = { ...rulesOfSample, temperature: 0, penalty: 1 };
    const greedy = continuation(model, from, length, rulesOfGreedy);
    const sample = continuation(model, from, length, rulesOfSample);
    const rows = [
      resultRow("greedy", from, greedy),
      resultRow(`sample, temperature ${temperature}`, from, sample),
      ...search.hypotheses.map((text, rank) => resultRow(`beam search, rank ${rank + 1}`, from, text)),
    ];
    $("beam-table").replaceChildren(make("thead", {}, top), make("tbody", {}, ...rows));
  }

  $("alpha").value = lab.facts.length_penalty;
  for (const id of ["width", "alpha"]) {
    const show = () => ($(`${id}-value`).textContent = $(id).value);
    $(id).addEventListener("input", show);
    show();
  }
  startStop("beams-run", () => lab.ids.length, run);
}
