// Bars of the likeliest next tokens before and after the filters; each can be chosen.
import { largest } from "./decoding.js";
import { $, bar, make, percent, refill } from "./dom.js";
import { aboutTruth, trueChances } from "./truth.js";

const SHOWN = 12;

export function bindNext(lab, token) {
  function about(position, { candidates, cut }) {
    const isNext = position === lab.ids.length;
    const where = isNext ? `Next ${token}` : `Instead of ${lab.quoted(position)}`;
    const size = lab.facts.settings.vocab_size.toLocaleString("en");
    const count = candidates.length.toLocaleString("en");
    const others = `the others have ${percent(cut)} of the probability`;
    const drawn = `${where}: ${count} of ${size} ${token}s may be drawn; ${others}.`;
    return `${drawn} ${aboutTruth(lab, position)}`.trim();
  }

  function row(id, position, { before, after }, truth) {
    const word = make("span", { className: "word" }, lab.word(id));
    const bars = [
      bar("before", before[id], percent(before[id])),
      bar("after", after[id], percent(after[id])),
    ];
    let chances = `${percent(before[id])}, after the filters ${percent(after[id])}`;
    if (truth) {
      const probability = truth[id] ?? 0;
      bars.unshift(bar("truth", probability, percent(probability)));
      chances += `, the generator's ${percent(probability)}`;
    }
    const button = make("button", { type: "button" }, word, ...bars);
    button.setAttribute("aria-label", `${lab.word(id)}: the model's own ${chances}`);
    button.addEventListener("click", () => lab.replace([...lab.ids.slice(0, position), id]));
    return make("li", { className: id === lab.ids[position] ? "taken" : "" }, button);
  }

  lab.watch(() => {
    if ($("view-next").hidden) return;
    const position = lab.looked;
    const chances = lab.chances(position);
    if (!chances) {
      $("next-about").textContent = "The model has read nothing before this position.";
      $("next-bars").replaceChildren();
      return;
    }
    $("next-about").textContent = about(position, chances);
    const truth = trueChances(lab, position);
    const ids = largest(chances.before, SHOWN);
    const taken = lab.ids[position];
    if (taken !== undefined && !ids.includes(taken)) ids.push(taken);
    $("next-bars").classList.toggle("three", Boolean(truth));
    refill($("next-bars"), ids.map((id) => row(id, position, chances, truth)));
  });
}
