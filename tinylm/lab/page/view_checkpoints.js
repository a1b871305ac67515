// The same beginning continued by each checkpoint; the chosen one is used on the whole page.
import { $, make, pause, refill, startStop } from "./dom.js";
import { continuation } from "./session.js";

const LENGTH = 40;

export function bindCheckpoints(lab) {
  const { checkpoints } = lab.facts;
  const texts = checkpoints.map(() => "\u2026");

  function show() {
    const rows = checkpoints.map((checkpoint, index) => {
      const isUsed = String(index === lab.checkpoint);
      const button = make("button", { type: "button", "aria-pressed": isUsed }, texts[index]);
      button.addEventListener("click", () => lab.useCheckpoint(index));
      return make("li", {}, make("p", { className: "when" }, checkpoint.name), button);
    });
    refill($("checkpoint-texts"), rows);
  }

  // Sampled by the page's rules: greedy decoding would show the loops of each model.
  async function run(goesOn) {
    const beginning = lab.ids.slice(0, lab.given);
    for (let index = 0; index < checkpoints.length && goesOn(); index++) {
      const { ids } = continuation(lab.modelOf(index), beginning, LENGTH, lab.drawRules());
      texts[index] = lab.tokenizer.decode(ids);
      show();
      await pause();
    }
  }

  startStop("checkpoints-run", () => lab.given, run);
  lab.watch(show);
}
