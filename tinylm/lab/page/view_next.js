// Bars of the likeliest next tokens before and after the filters; each can be chosen.
import { largest } from "./decoding.js";
import { $, bar, make, percent, refill } from "./dom.js";

const SHOWN = 12;

export function bindNext(lab, token) {
  function about(position, { candidates, cut }) {
    const isNext = position === lab.ids.length;
    const where = isNext ? `Next ${token}` : `Instead of ${lab.quoted(position)}`;
    const size = lab.facts.settings.vocab_size.toLocaleString("en");
    const count = candidates.length.toLocaleString("en");
    const others = `the others have ${percent(cut)} of the probability`;
    return `${where}: ${count} of ${size} ${token}s may be drawn; ${others}.`;
  }

  function row(id, position, { before, after }) {
    const word = make("span", { className: "word" }, lab.word(id));
    const bars = [
      bar("before", before[id], percent(before[id])),
      bar("after", after[id], percent(after[id])),
    ];
    const button = make("button", { type: "button" }, word, ...bars);
    const chances = `${percent(before[id])}, after the filters ${percent(after[id])}`;
    button.setAttribute("aria-label", `${lab.word(id)}: the model's own ${chances}`);
    button.addEventListener("click", () => lab.replace([...lab.ids.slice(0, position), id]));
    return make("li", { className: id === lab.ids[position] ? "taken" : "" }, button);
  }

  lab.watch(() => {
    if ($("view-next").hidden) return;
    const position = lab.chosen ?? lab.ids.length;
    const chances = lab.chances(position);
    if (!chances) {
      $("next-about").textContent = "The model has read nothing before this position.";
      $("next-bars").replaceChildren();
      return;
    }
    $("next-about").textContent = about(position, chances);
    const ids = largest(chances.before, SHOWN);
    const taken = lab.ids[position];
    if (taken !== undefined && !ids.includes(taken)) ids.push(taken);
    const longest = Math.max(...ids.flatMap((id) => [chances.before[id], chances.after[id]]));
    $("next-bars").style.setProperty("--full", longest);
    refill($("next-bars"), ids.map((id) => row(id, position, chances)));
  });
}
