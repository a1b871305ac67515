// A slider through the checkpoints of the run, and the same beginning continued by each of them.
import { draw, nextChances } from "./decoding.js";
import { $, make, pause, refill, startStop } from "./dom.js";
import { Session } from "./session.js";

const LENGTH = 18;

export function bindCheckpoints(lab) {
  const { checkpoints } = lab.facts;
  const texts = checkpoints.map(() => "\u2026");

  function greedy(model) {
    const session = new Session(model, lab.ids.slice(0, lab.given), { slide: lab.facts.slide });
    const rules = { ...lab.drawRules(), temperature: 0, penalty: 1 };
    for (let n = 0; n < LENGTH; n++) {
      const token = draw(nextChances(session.next(), session.ids, rules), 0);
      session.push(token);
      if (lab.isEnd(token)) break;
    }
    return lab.tokenizer.decode(session.ids.slice(lab.given));
  }

  function show() {
    const { name } = checkpoints[lab.checkpoint];
    $("checkpoint").value = lab.checkpoint;
    $("checkpoint").setAttribute("aria-valuetext", name);
    $("checkpoint-value").textContent = name;
    const rows = checkpoints.map((checkpoint, index) => {
      const isUsed = String(index === lab.checkpoint);
      const button = make("button", { type: "button", "aria-pressed": isUsed }, texts[index]);
      button.addEventListener("click", () => lab.useCheckpoint(index));
      return make("li", {}, make("p", { className: "when" }, checkpoint.name), button);
    });
    refill($("checkpoint-texts"), rows);
  }

  async function run(goesOn) {
    for (let index = 0; index < checkpoints.length && goesOn(); index++) {
      texts[index] = greedy(lab.modelOf(index));
      show();
      await pause();
    }
  }

  $("checkpoint").max = checkpoints.length - 1;
  $("checkpoint").addEventListener("input", () => lab.useCheckpoint(Number($("checkpoint").value)));
  startStop("checkpoints-run", () => lab.given, run);
  lab.watch(show);
}
