// Bars of the likeliest next tokens before and after temperature and filters; each can be chosen.
import { largest } from "./decoding.js";
import { $, make, percent, refill } from "./dom.js";

const SHOWN = 12;
const SCALES = [0.05, 0.1, 0.25, 0.5, 1]; // what a full bar may stand for

function bar(kind, share) {
  const strip = make("i", { className: kind });
  strip.style.setProperty("--share", share);
  return make("span", { className: "bar" }, make("span", {}, strip), make("b", {}, percent(share)));
}

export function bindNext(lab, token) {
  function about(position, { candidates, cut }) {
    const { rules } = lab;
    const where = position < lab.ids.length ? `In the place of ${lab.named(position)}` : `Next ${token}`;
    const size = lab.facts.settings.vocab_size.toLocaleString("en");
    if (rules.temperature === 0) return `${where}: at temperature 0 the likeliest of ${size} ${token}s is always taken.`;
    const ways = [`temperature ${rules.temperature}`];
    if (rules.topK) ways.push(`top-k ${rules.topK}`);
    if (rules.topP < 1) ways.push(`top-p ${rules.topP}`);
    if (rules.penalty > 1) ways.push(`repetition penalty ${rules.penalty}`);
    const left = `${candidates.length.toLocaleString("en")} of ${size} ${token}s may be drawn`;
    return `${where}: with ${ways.join(", ")}, ${left}; the others had ${percent(cut)} of the probability.`;
  }

  function take(position, id) {
    if (position === lab.ids.length) {
      lab.ids = [...lab.ids, id];
      lab.choose(null);
    } else lab.replace([...lab.ids.slice(0, position), id]);
  }

  lab.watch(() => {
    if ($("view-next").hidden) return;
    const position = lab.chosen ?? lab.ids.length;
    const chances = lab.chances(position);
    if (!chances) {
      $("next-about").textContent = lab.ids.length
        ? "Nothing before this position is in the model's window."
        : "Write the beginning of a story first.";
      $("next-bars").replaceChildren();
      return;
    }
    $("next-about").textContent = about(position, chances);
    const ids = largest(chances.before, SHOWN);
    const taken = lab.ids[position];
    if (taken !== undefined && !ids.includes(taken)) ids.push(taken);
    const rows = ids.map((id) => {
      const word = make("span", { className: "word" }, lab.word(id));
      const button = make("button", { type: "button" }, word, bar("before", chances.before[id]), bar("after", chances.after[id]));
      button.setAttribute("aria-label", `${lab.word(id)}: the model's own ${percent(chances.before[id])}, after the filters ${percent(chances.after[id])}`);
      button.addEventListener("click", () => take(position, id));
      return make("li", { className: id === taken ? "taken" : "" }, button);
    });
    const longest = Math.max(...ids.flatMap((id) => [chances.before[id], chances.after[id]]));
    const scale = SCALES.find((most) => longest <= most) ?? 1;
    $("next-scale").textContent = `${100 * scale} %`;
    $("next-bars").style.setProperty("--full", scale);
    refill($("next-bars"), rows);
  });
}
