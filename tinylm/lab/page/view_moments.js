// A slider through the moments of training whose weights the run kept.
import { draw, nextChances } from "./decoding.js";
import { $, make, pause, refill } from "./dom.js";
import { Session } from "./session.js";

const LENGTH = 18;

export function bindMoments(lab) {
  const { moments } = lab.facts;
  if (moments.length < 2) return;
  const texts = moments.map(() => null);
  let [prompt, writing] = ["", false];

  // The greedy text of one moment; the model of that moment stays for the slider.
  async function greedy(moment) {
    lab.models[moment] ??= lab.build(await lab.tensors[moment]());
    const model = lab.models[moment];
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
    for (let moment = 0; !$("view-moments").hidden && (moment = texts.indexOf(null)) >= 0; ) {
      const asked = prompt;
      const text = await greedy(moment);
      if (asked === prompt) texts[moment] = text;
      show();
      await pause();
    }
    writing = false;
  }

  function show() {
    const rows = moments.map(({ name }, moment) => {
      const button = make("button", { type: "button", "aria-pressed": String(moment === lab.moment) }, texts[moment] ?? "\u2026");
      button.addEventListener("click", () => lab.useMoment(moment));
      return make("li", {}, make("p", { className: "when" }, name), button);
    });
    refill($("moment-texts"), rows);
  }

  $("moment").max = moments.length - 1;
  $("moment").addEventListener("input", () => lab.useMoment(Number($("moment").value)));
  lab.watch(() => {
    $("moment").value = lab.moment;
    $("moment-value").textContent = moments[lab.moment].name;
    $("moment").setAttribute("aria-valuetext", moments[lab.moment].name);
    if ($("view-moments").hidden) return;
    const now = lab.ids.slice(0, lab.given).join(" ") + [...lab.off].join(" ");
    if (now !== prompt) texts.fill(null);
    prompt = now;
    show();
    if (lab.given && texts.includes(null)) fill();
  });
}
