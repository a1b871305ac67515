// What the model would say after each layer.
import { largest } from "./decoding.js";
import { $, make, percent } from "./dom.js";
import { softmax } from "./model.js";

const SHOWN = 5;

export function bindLayers(lab) {
  lab.watch(() => {
    if ($("view-layers").hidden) return;
    const position = lab.chosen ?? lab.ids.length;
    const seen = lab.read()?.at(position - 1);
    const taken = lab.ids[position];
    $("layers-about").textContent = seen
      ? `What the model would ${taken === undefined ? "say next" : `have said in the place of ${lab.named(position)}`}, had it stopped after each layer.`
      : `Nothing before this position is in the model's window.`;
    const head = ["After", ...Array.from({ length: SHOWN }, (_, rank) => `${rank + 1}`)];
    if (taken !== undefined) head.push(`rank of \u201c${lab.word(taken)}\u201d`);
    const rows = (seen?.states ?? []).map((state, layer) => {
      const chances = softmax(lab.model.lens(state));
      const cells = largest(chances, SHOWN).map((id) => [`${lab.word(id)} `, make("span", {}, percent(chances[id]))]);
      if (taken !== undefined) cells.push([1 + chances.filter((chance) => chance > chances[taken]).length]);
      return make("tr", {}, make("th", { scope: "row" }, `layer ${layer + 1}`), ...cells.map((cell) => make("td", {}, ...cell)));
    });
    const top = make("tr", {}, ...head.map((name) => make("th", { scope: "col" }, name)));
    $("layers").replaceChildren(make("thead", {}, top), make("tbody", {}, ...rows));
  });
}
