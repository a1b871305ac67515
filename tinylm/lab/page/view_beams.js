// Beam search drawn as a tree while it grows, beside greedy decoding and a sample.
import { BeamSearch } from "./beams.js";
import { draw, nextChances, randomNumbers } from "./decoding.js";
import { $, fixed, make, numberIn, pause, startStop, svg } from "./dom.js";
import { Session } from "./session.js";

const [COLUMN, ROW] = [92, 20];

export function bindBeams(lab, token) {
  // The search goes on after the chosen token, otherwise after the beginning that was typed.
  const start = () => lab.ids.slice(0, lab.chosen === null ? lab.given : lab.chosen + 1);
  const rules = () => ({ ...lab.drawRules(), eos: lab.rules.stop ? lab.tokenizer.rule.eos_id : null });

  // One text by greedy decoding or sampling: {ids, logProb, ms}
  function single(model, from, length, temperature) {
    const begun = performance.now();
    const written = [];
    const { eos, ...others } = rules();
    const session = new Session(model, from, { slide: lab.facts.slide });
    const next = randomNumbers(lab.rules.seed);
    let logProb = 0;
    while (written.length < length && (eos === null || written.at(-1) !== eos)) {
      const chances = nextChances(session.next(), session.ids, { ...others, ...temperature, eos: lab.tokenizer.rule.eos_id });
      const id = draw(chances, next());
      logProb += Math.log(chances.before[id]);
      session.push(id);
      written.push(id);
    }
    session.close();
    return { ids: written, logProb, ms: performance.now() - begun };
  }

  // Rows are given to the leaves in order; a parent stands at its first child.
  function drawTree(search) {
    const best = new Set();
    for (let node = search.hypotheses[0]?.node ?? search.live[0]?.node; node; node = node.parent) best.add(node);
    const parts = [];
    let row = 0;
    const layOut = (node, depth) => {
      const from = row;
      node.children.forEach((child) => layOut(child, depth + 1));
      if (!node.children.length) row += 1;
      node.y = ROW * (from + 0.7);
      const x = 4 + depth * COLUMN;
      const word = node.token === null ? "\u2026" : lab.word(node.token);
      const shown = word.length > 9 ? `${word.slice(0, 8)}\u2026` : word;
      const end = x + 7 * shown.length + 4; // about where the word ends
      for (const child of node.children) {
        const bend = x + COLUMN - 12;
        const path = `M${end} ${node.y - 4}H${Math.max(end, x + COLUMN - 24)}C${bend} ${node.y - 4} ${bend} ${child.y - 4} ${x + COLUMN - 2} ${child.y - 4}`;
        parts.unshift(svg("path", { d: path, class: best.has(child) ? "best" : "" }));
      }
      const kind = best.has(node) ? "best" : node.state ?? "live";
      parts.push(svg("text", { x, y: node.y, class: kind }, shown, svg("title", {}, `${word}: ${fixed(node.total, 2)} nats`)));
    };
    layOut(search.root, 0);
    const [width, height] = [(search.length + 1) * COLUMN + 8, Math.max(row, 1) * ROW + 8];
    $("tree").setAttribute("width", width);
    $("tree").setAttribute("height", height);
    $("tree").setAttribute("aria-label", `Tree of ${search.length} steps with ${row} ends`);
    $("tree").replaceChildren(...parts);
    $("tree").parentElement.scrollLeft = width;
  }

  function showResults(rows, from) {
    const names = ["Method", "Text", "log-prob. (nats)", `per ${token}`, `${token}s a second`];
    const top = make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, name)));
    const body = rows.map(([name, { ids, logProb, ms, computed }]) => {
      const use = make("button", { type: "button" }, lab.tokenizer.decode(ids) || "(ends at once)");
      use.title = "Go on from this text";
      use.addEventListener("click", () => lab.replace([...from, ...ids]));
      const figures = [fixed(logProb, 2), fixed(logProb / Math.max(1, ids.length), 3)];
      figures.push(ms === undefined ? "" : Math.round((1000 * (computed ?? ids.length)) / ms).toLocaleString("en"));
      const cells = figures.map((figure) => make("td", {}, figure));
      return make("tr", {}, make("th", { scope: "row" }, name), make("td", { className: "text" }, use), ...cells);
    });
    $("beam-table").replaceChildren(make("thead", {}, top), make("tbody", {}, ...body));
  }

  async function run(goesOn) {
    const [width, length, alpha] = ["width", "beam-length", "alpha"].map((id) => numberIn(id) ?? 1);
    const { eos, banned } = rules();
    const { model } = lab;
    const [text, off] = [lab.ids, [...lab.off].join()];
    const same = () => lab.model === model && lab.ids === text && [...lab.off].join() === off;
    const from = start();
    const search = new BeamSearch(model, from, { width, length, alpha, eos, banned, slide: lab.facts.slide });
    const after = `After ${lab.named(from.length - 1)}`;
    $("beam-table").replaceChildren();
    let ms = 0;
    while (!search.done && goesOn() && same()) {
      const begun = performance.now();
      search.step();
      ms += performance.now() - begun;
      drawTree(search);
      $("beams-state").textContent = `${after}: step ${search.length} of ${length}, ${search.live.length} live beams.`;
      await pause(90);
    }
    if (!search.done || !same()) {
      search.end();
      $("beams-state").textContent = same() ? "Stopped." : "Stopped: the text or the model was changed.";
    } else {
      const greedy = single(model, from, length, { temperature: 0, penalty: 1 });
      const others = search.hypotheses.map((hypothesis, i) => [`beam ${i + 1}`, i ? hypothesis : { ...hypothesis, ms, computed: search.length }]);
      $("tree").parentElement.scrollLeft = 0;
      showResults([["greedy", greedy], [`sample, temperature ${lab.rules.temperature}`, single(model, from, length, {})], ...others], from);
      const more = search.hypotheses[0].logProb - greedy.logProb;
      const judged = Math.abs(more) < 1e-6 ? "finds what greedy decoding finds" :
        more > 0 ? `finds a text that is ${Math.exp(more).toLocaleString("en", { maximumSignificantDigits: 2 })} times as likely as the greedy one` :
        `keeps a text less likely than the greedy one by ${fixed(-more, 2)} nats`;
      $("beams-state").textContent = `${after}: beam search of width ${width} ${judged}, in ${search.length} steps.`;
    }
  }

  for (const id of ["width", "alpha"]) {
    $(id).addEventListener("input", () => ($(`${id}-value`).textContent = $(id).value));
  }
  $("alpha").value = lab.facts.length_penalty;
  for (const id of ["width", "alpha"]) $(id).dispatchEvent(new Event("input"));
  startStop("beams-run", () => lab.ids.length, run);
}
