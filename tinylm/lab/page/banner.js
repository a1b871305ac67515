// What the page has changed about the trained model, on every view, with the way back.
import { $, capitalised, make } from "./dom.js";

export function bindBanner(lab) {
  const { trained } = lab.facts;

  function line(text, action, undo) {
    const button = make("button", { type: "button" }, action);
    button.addEventListener("click", undo);
    return make("p", {}, `${text} `, button);
  }

  lab.watch(() => {
    const lines = [];
    const off = [...lab.off].sort().map((name) => lab.headName(name));
    if (off.length === 1) lines.push(line(`${capitalised(off[0])} is off.`, "Switch on", () => lab.switchAllOn()));
    if (off.length > 1) {
      const names = capitalised(off.join("; "));
      lines.push(line(`${off.length} heads are off. ${names}.`, "Switch all on", () => lab.switchAllOn()));
    }
    if (lab.checkpoint !== trained) {
      const { name } = lab.facts.checkpoints[lab.checkpoint];
      lines.push(line(`The model ${name}.`, "Use the trained model", () => lab.useCheckpoint(trained)));
    }
    $("banner").hidden = !lines.length;
    $("banner").replaceChildren(...lines);
  });
}
