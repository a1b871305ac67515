// What the model would predict after each layer.
import { largest } from "./decoding.js";
import { $, make, percent } from "./dom.js";
import { softmax } from "./model.js";

const RANKS = 5;

export function bindLayers(lab) {
  function row(state, layer, taken) {
    const chances = softmax(lab.model.lens(state));
    const cells = largest(chances, RANKS).map((id) =>
      make("td", {}, `${lab.word(id)} `, make("span", {}, percent(chances[id]))),
    );
    if (taken !== undefined) {
      const better = chances.filter((chance) => chance > chances[taken]).length;
      cells.push(make("td", {}, `${1 + better}`));
    }
    return make("tr", {}, make("th", { scope: "row" }, `layer ${layer + 1}`), ...cells);
  }

  lab.watch(() => {
    if ($("view-layers").hidden) return;
    const position = lab.chosen ?? lab.ids.length;
    const seen = lab.read()?.at(position - 1);
    const taken = lab.ids[position];
    const what = taken === undefined ? "next" : `instead of ${lab.quoted(position)}`;
    $("layers-about").textContent = seen
      ? `What the model would predict ${what} if it stopped after each layer.`
      : "The model's window does not reach there.";
    const names = ["After", ...Array.from({ length: RANKS }, (_, rank) => `${rank + 1}`)];
    if (taken !== undefined) names.push(`rank of ${lab.quoted(position)}`);
    const top = make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, name)));
    const rows = (seen?.states ?? []).map((state, layer) => row(state, layer, taken));
    $("layers").replaceChildren(make("thead", {}, top), make("tbody", {}, ...rows));
  });
}
