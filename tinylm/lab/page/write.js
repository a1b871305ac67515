// The story: prompt, buttons, rules, tokens on the screen, branches.
import { $, fixed, frame, make, numberIn, refill } from "./dom.js";

const RULES = { temperature: 2, "top-k": 0, "top-p": 2, penalty: 2, seed: 0 };
const KEYS = { "top-k": "topK", "top-p": "topP" };

export function bindWriting(lab, token) {
  let running = null; // the writing that is under way; another one ends it
  let speed = null;
  let branches = null; // those on the screen

  function showUnknown() {
    const unknown = [...new Set(lab.tokenizer.unknown($("prompt").value))];
    const named = unknown.slice(0, 6).map((word) => `\u201c${word}\u201d`).join(", ");
    const more = unknown.length > 6 ? ` and ${unknown.length - 6} more` : "";
    $("unknown").textContent = unknown.length
      ? `Not in the vocabulary: ${named}${more}. The model reads <unk> in its position, a word that it does not know.`
      : "";
  }

  function restart() {
    running = null;
    speed = null;
    showUnknown();
    lab.start($("prompt").value);
  }

  async function write(count) {
    if (!lab.ids.length) return;
    const mine = (running = {});
    const goesOn = () => running === mine && written < count && !lab.ended;
    let [written, sum, busy] = [0, 0, 0];
    const pace = Number($("pace").value);
    const begun = performance.now();
    while (goesOn()) {
      const until = performance.now() + 12;
      do {
        if (pace && count > 1 && performance.now() - begun < (written * 1000) / pace) break;
        const from = performance.now();
        sum += lab.grow();
        busy += performance.now() - from;
        written += 1;
      } while (goesOn() && performance.now() < until);
      if (written && count > 1) speed = { written, sum, busy };
      lab.changed();
      if (count > 1) await frame();
    }
    if (running === mine) running = null;
    lab.changed();
  }

  function showButtons() {
    $("write").textContent = running ? "Pause" : "Write";
    $("one").disabled = running || lab.ended || !lab.ids.length;
    $("undo").disabled = running || lab.ids.length <= lab.given;
    $("write").disabled = !running && (lab.ended || !lab.ids.length);
  }

  function showRules() {
    for (const [id, digits] of Object.entries(RULES)) {
      const value = lab.rules[KEYS[id] ?? id];
      $(id).value = value;
      const shown = $(`${id}-value`);
      if (shown) shown.textContent = id === "temperature" && value === 0 ? "0: always the likeliest" : fixed(value, digits);
    }
  }

  // The spans of the tokens are kept while the text only grows.
  function showStory() {
    const box = $("story");
    const shown = [...box.children];
    const { rule } = lab.tokenizer;
    const unknown = rule.unk_id;
    lab.ids.forEach((id, position) => {
      let span = shown[position];
      if (!span) {
        span = make("span", { role: "option", id: `token-${position}` });
        box.append(span);
      }
      const special = rule.specials.includes(id);
      const text = rule.kind === "words" ? `${lab.word(id)} ` : lab.word(id);
      if (span.textContent !== text) span.textContent = text;
      span.className = [position < lab.given && "given", special && "special", id === unknown && "unknown"]
        .filter(Boolean)
        .join(" ");
      span.setAttribute("aria-selected", String(position === lab.chosen));
    });
    shown.slice(lab.ids.length).forEach((span) => span.remove());
    if (lab.chosen === null) box.removeAttribute("aria-activedescendant");
    else box.setAttribute("aria-activedescendant", `token-${lab.chosen}`);
    if (running) box.scrollTop = box.scrollHeight;
  }

  function showState() {
    const { context } = lab.facts.settings;
    const words = lab.counted();
    const parts = [`${words} ${token}${words === 1 ? "" : "s"}`];
    if (speed?.busy > 0) {
      const rate = Math.round((1000 * speed.written) / speed.busy).toLocaleString("en");
      parts.push(`last written here: ${speed.written} at ${rate} ${token}s a second, log-probability ${fixed(speed.sum / speed.written, 2)} nats per ${token}`);
    }
    if (lab.windowStart() > 0) parts.push(`the model sees the last ${lab.ids.length - lab.windowStart()} (context ${context})`);
    if (lab.off.size) parts.push(`${lab.off.size} ${lab.off.size === 1 ? "head" : "heads"} switched off`);
    if (lab.checkpoint < lab.facts.checkpoints.length - 1) parts.push(lab.facts.checkpoints[lab.checkpoint].name);
    if (lab.ended) parts.push("the model ended the story");
    $("state").textContent = `${parts.join("; ")}.`;
  }

  function showBranches() {
    $("branches-part").hidden = !lab.branches.length;
    if (branches === lab.branches) return;
    branches = lab.branches;
    const rows = branches.map((branch) => {
      const button = make("button", { type: "button" }, lab.tokenizer.decode(branch.ids));
      button.addEventListener("click", () => lab.goTo(branch));
      return make("li", {}, button);
    });
    refill($("branches"), rows);
  }

  for (const id of Object.keys(RULES)) {
    $(id).addEventListener("input", () => {
      const number = numberIn(id);
      if (number === null) return;
      lab.rules[KEYS[id] ?? id] = number;
      lab.changed();
    });
  }
  $("stop").addEventListener("change", () => {
    lab.rules.stop = $("stop").checked;
    lab.changed();
  });
  $("stop-label").hidden = lab.tokenizer.rule.eos_id === null;
  $("most").value = lab.facts.most;
  $("prompt").value = lab.facts.prompt;
  $("prompt").addEventListener("input", restart);
  $("write").addEventListener("click", () => {
    if (running) running = null;
    else write(numberIn("most") ?? lab.facts.most);
  });
  $("one").addEventListener("click", () => write(1));
  $("undo").addEventListener("click", () => lab.undo());
  $("again").addEventListener("click", restart);
  $("story").addEventListener("click", (event) => {
    const position = [...$("story").children].indexOf(event.target.closest("span"));
    lab.choose(position < 0 || position === lab.chosen ? null : position);
  });
  $("story").addEventListener("keydown", (event) => {
    const from = lab.chosen ?? lab.ids.length;
    const steps = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: null, Escape: null };
    if (!(event.key in steps)) return;
    event.preventDefault();
    lab.choose(steps[event.key]);
    $("story").children[lab.chosen]?.scrollIntoView({ block: "nearest" });
  });
  lab.watch(() => {
    showStory();
    showState();
    showButtons();
    showRules();
    showBranches();
  });
  restart();
  return { restart, write };
}
