// The story: prompt, buttons, rules, tokens on the screen.
import { $, frame, make, numberIn, startStop } from "./dom.js";
import { firstImpossible } from "./truth.js";

const RULES = ["temperature", "topK", "topP", "minP", "penalty", "seed"];

export function bindWriting(lab, token) {
  function restart() {
    lab.start($("prompt").value);
  }

  // Until the model ends the story or the reader changes the text
  async function write(goesOn) {
    const most = numberIn("most") ?? lab.facts.most;
    let { ids } = lab;
    for (let n = 0; n < most && !lab.ended && lab.ids === ids && goesOn(); n++) {
      lab.grow();
      ids = lab.ids;
      lab.changed();
      $("story").scrollTop = $("story").scrollHeight;
      await frame();
    }
  }

  let shown = null; // the chosen position that the reader has been shown

  function showStory() {
    const box = $("story");
    const { rule } = lab.tokenizer;
    const impossible = firstImpossible(lab) ?? Infinity;
    const spans = lab.ids.map((id, position) => {
      const isPiece = rule.kind !== "words" && !rule.specials.includes(id);
      const text = isPiece ? lab.tokenizer.decode([id]) : `${lab.word(id)} `;
      const isChosen = String(position === lab.chosen);
      const role = { role: "option", id: `token-${position}`, "aria-selected": isChosen };
      const span = make("span", role, text);
      span.classList.toggle("given", position < lab.given);
      span.classList.toggle("special", rule.specials.includes(id));
      span.classList.toggle("unknown", id === rule.unk_id);
      span.classList.toggle("impossible", position === impossible);
      span.classList.toggle("unjudged", position > impossible);
      return span;
    });
    box.replaceChildren(...spans);
    $("judged").hidden = impossible === Infinity;
    const chosen = lab.chosen === null ? "" : `token-${lab.chosen}`;
    box.setAttribute("aria-activedescendant", chosen);
    if (lab.chosen !== shown) spans[lab.chosen]?.scrollIntoView({ block: "nearest" });
    shown = lab.chosen;
  }

  function showState() {
    const { settings } = lab.facts;
    const start = lab.windowStart();
    const parts = [`${lab.count()} ${token}s`];
    const visible = `the model sees the last ${lab.ids.length - start}`;
    if (start) parts.push(`${visible} (context ${settings.context})`);
    if (lab.ended) parts.push("the model ended the story");
    $("state").textContent = `${parts.join("; ")}.`;
  }

  function bindRules() {
    for (const name of RULES) {
      const show = () => {
        const output = $(`${name}-value`);
        if (output) output.textContent = $(name).value;
      };
      $(name).value = lab.rules[name];
      $(name).addEventListener("input", () => {
        lab.rules[name] = numberIn(name) ?? lab.rules[name];
        show();
        lab.changed();
      });
      show();
    }
    $("stop").addEventListener("change", () => {
      lab.rules.stop = $("stop").checked;
      lab.changed();
    });
    $("stop-label").hidden = lab.tokenizer.rule.eos_id === null;
    $("most").value = lab.facts.most;
  }

  function bindStory() {
    const box = $("story");
    box.addEventListener("click", (event) => {
      const position = [...box.children].indexOf(event.target.closest("span"));
      lab.choose(position < 0 || position === lab.chosen ? null : position);
    });
    box.addEventListener("keydown", (event) => {
      const from = lab.chosen ?? lab.ids.length;
      const moves = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0 };
      const targets = { ...moves, End: null, Escape: null };
      if (!(event.key in targets)) return;
      event.preventDefault();
      lab.choose(targets[event.key]);
    });
  }

  function bindOpenings(list, texts, name) {
    for (const text of texts) {
      const button = make("button", { type: "button" }, name(text));
      button.addEventListener("click", () => {
        $("prompt").value = text;
        restart();
      });
      $(list).append(button);
    }
  }

  bindRules();
  bindStory();
  bindOpenings("openings", lab.facts.openings, (text) => text);
  const beginning = (text) => `${text.split(" ").slice(0, 8).join(" ")} ...`;
  bindOpenings("samples", lab.facts.samples, beginning);
  $("prompt").value = lab.facts.prompt;
  $("prompt").addEventListener("input", restart);
  $("again").addEventListener("click", restart);
  $("undo").addEventListener("click", () => lab.undo());
  $("one").addEventListener("click", () => {
    if (lab.ids.length && !lab.ended) lab.grow();
    lab.changed();
  });
  startStop("write", () => lab.ids.length, write);
  lab.watch(() => {
    showStory();
    showState();
  });
  restart();
}
