// The beginning word by word: how surprising each is, and which words the model does not know.
import { $, make, odds } from "./dom.js";

const FULL_COLOUR = 10; // nats: a word that got 1 in 20,000
const SURPRISE = 0.001; // what a surprising word got at most

// The words of the prompt, which the lab has read: {text, position of its first token, isUnknown,
// chance (null: nothing was read before it)}
export function typedWords(lab, prompt) {
  const { rule } = lab.tokenizer;
  const written = rule.kind === "words" ? lab.tokenizer.split(prompt) : [];
  const words = [];
  for (let position = rule.sos_id === null ? 0 : 1; position < lab.given; position++) {
    const id = lab.ids[position];
    const piece = rule.tokens[id];
    const chance = lab.chanceOf(position);
    const isNew = rule.kind === "words" || !words.length || /^[\u0120\u010a]/.test(piece);
    if (isNew) words.push({ text: "", chance: 1, isUnknown: id === rule.unk_id, position });
    const word = words.at(-1);
    word.text += written[words.length - 1] ?? lab.tokenizer.decode([id]);
    word.chance = chance === null ? null : word.chance * chance;
  }
  return words;
}

// A word with its chance; a click chooses it in the story.
function tile(lab, { text, chance, isUnknown, position }) {
  const isScored = chance !== null && !isUnknown;
  const shown = isUnknown ? "unknown" : isScored ? odds(chance) : "";
  const surprise = isScored ? Math.min(1, -Math.log(chance) / FULL_COLOUR) : 0;
  const number = make("small", {}, shown);
  const element = make("button", { type: "button", className: isUnknown ? "unknown" : "" }, text, number);
  element.style.setProperty("--surprise", surprise.toFixed(2));
  element.addEventListener("click", () => lab.choose(position));
  return element;
}

function verdict(lab, words) {
  const unknown = words.filter(({ isUnknown }) => isUnknown);
  const improbable = words.filter(({ chance, isUnknown }) => !isUnknown && chance !== null && chance < SURPRISE);
  const strange = unknown.length + improbable.length;
  const parts = [];
  const known = lab.facts.settings.vocab_size.toLocaleString("en");
  const names = unknown.map(({ text }) => text).join(", ");
  if (unknown.length) parts.push(`Not among its ${known} words: ${names}.`);
  if (improbable.length) {
    const odd = improbable.map(({ text }) => text).join(", ");
    parts.push(`Very improbable here (below 1 in 1,000): ${odd}.`);
  }
  if (strange > words.length / 3) {
    const verb = strange === 1 ? "surprises" : "surprise";
    const share = `${strange} of ${words.length} words ${verb} the model`;
    parts.push(`${share}: expect a story that does not fit, or take an opening.`);
  } else if (words.length && !strange) {
    parts.push("No word here is very improbable (below 1 in 1,000).");
  }
  return parts.join(" ");
}

export function bindTyped(lab) {
  let seen = "";
  lab.watch(() => {
    const key = `${lab.checkpoint} ${[...lab.off]} ${lab.ids.slice(0, lab.given)}`;
    if (key === seen) return;
    seen = key;
    const words = typedWords(lab, $("prompt").value);
    $("typed").replaceChildren(...words.map((word) => tile(lab, word)));
    $("verdict").textContent = verdict(lab, words);
  });
}
