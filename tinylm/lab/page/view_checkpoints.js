// A slider through the checkpoints of the run.
import { draw, nextChances } from "./decoding.js";
import { $, make, pause, refill } from "./dom.js";
import { Session } from "./session.js";

const LENGTH = 18;

export function bindCheckpoints(lab) {
  const { checkpoints } = lab.facts;
  if (checkpoints.length < 2) return;
  const texts = checkpoints.map(() => null);
  let [prompt, writing] = ["", false];

  // The greedy text of one checkpoint; the model of that checkpoint stays for the slider.
  async function greedy(checkpoint) {
    lab.models[checkpoint] ??= lab.build(await lab.tensors[checkpoint]());
    const model = lab.models[checkpoint];
    const session = new Session(model, lab.ids.slice(0, lab.given), { slide: lab.facts.slide });
    const rules = { ...lab.drawRules(), temperature: 0, penalty: 1 };
    for (let i = 0; i < LENGTH && session.ids.at(-1) !== (i ? rules.eos : null); i++) {
      session.push(draw(nextChances(session.next(), session.ids, rules), 0));
    }
    session.close();
    return lab.tokenizer.decode(session.ids.slice(lab.given));
  }

  async function fill() {
    if (writing) return;
    writing = true;
    for (let checkpoint = 0; !$("view-checkpoints").hidden && (checkpoint = texts.indexOf(null)) >= 0; ) {
      const asked = prompt;
      const text = await greedy(checkpoint);
      if (asked === prompt) texts[checkpoint] = text;
      show();
      await pause();
    }
    writing = false;
  }

  function show() {
    const rows = checkpoints.map(({ name }, checkpoint) => {
      const button = make("button", { type: "button", "aria-pressed": String(checkpoint === lab.checkpoint) }, texts[checkpoint] ?? "\u2026");
      button.addEventListener("click", () => lab.useCheckpoint(checkpoint));
      return make("li", {}, make("p", { className: "when" }, name), button);
    });
    refill($("checkpoint-texts"), rows);
  }

  $("checkpoint").max = checkpoints.length - 1;
  $("checkpoint").addEventListener("input", () => lab.useCheckpoint(Number($("checkpoint").value)));
  lab.watch(() => {
    $("checkpoint").value = lab.checkpoint;
    $("checkpoint-value").textContent = checkpoints[lab.checkpoint].name;
    $("checkpoint").setAttribute("aria-valuetext", checkpoints[lab.checkpoint].name);
    if ($("view-checkpoints").hidden) return;
    const now = lab.ids.slice(0, lab.given).join(" ") + [...lab.off].join(" ");
    if (now !== prompt) texts.fill(null);
    prompt = now;
    show();
    if (lab.given && texts.includes(null)) fill();
  });
}
