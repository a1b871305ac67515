// Every head over the text: where it looked for a prediction, what the run measured of it, and a switch.
import { bindMap } from "./attention_map.js";
import { copiedWord } from "./copies.js";
import { largest } from "./decoding.js";
import { $, bar, capitalised, make, percent } from "./dom.js";

const SHOWN_WORDS = 6; // in the bars of the next token

// Weights as pixels; the square root keeps small ones visible.
function paint(canvas, weights) {
  canvas.width = weights.length;
  canvas.height = 1;
  const context = canvas.getContext("2d");
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--heat");
  weights.forEach((weight, x) => {
    context.globalAlpha = Math.sqrt(weight);
    context.fillRect(x, 0, 1, 1);
  });
}

const UNCLEAR = "no measurable change";

// By how much the right token becomes less or more probable without the head; "" if it is not known
function costOf({ increase, low, high } = {}) {
  if (increase === undefined) return "";
  const isClear = low > 0 || high < 0;
  if (!isClear) return UNCLEAR;
  const change = 100 * Math.expm1(-increase);
  const sign = change > 0 ? "+" : "\u2212";
  return `${sign}${Math.abs(change).toFixed(1)} %`;
}

export function bindHeads(lab) {
  const { layers, heads } = lab.facts.settings;
  const { token } = lab.facts;
  const cells = [];
  const showMap = bindMap(lab);
  let copied = {}; // the text and position of the copied word that is described

  function addCell(layer, head) {
    const id = `${layer}.${head}`;
    const name = capitalised(lab.headName(id));
    const strip = make("canvas", { className: "strip", "aria-hidden": "true" });
    const weight = make("span", { className: "weight" });
    const target = make("span", { className: "target" });
    const top = make("span", { className: "top" }, make("strong", {}, `Head ${head + 1}`), weight);
    const button = make("button", { type: "button", "aria-pressed": "false", "aria-label": name }, top, strip, target);
    const tick = make("input", { type: "checkbox", checked: true, "aria-label": `${name} is on` });
    const cost = costOf(lab.facts.heads[id]);
    const label = make("label", {}, tick, ...(cost ? [make("span", { className: "off" }, "off"), cost] : ["on"]));
    const cell = make("div", { className: "head" }, button, label);
    button.addEventListener("click", () => lab.lookAt(layer, head));
    tick.addEventListener("change", () => lab.switchHead(id, tick.checked));
    cells.push({ layer, head, id, name, cell, button, strip, weight, target, tick });
    $("heads").append(cell);
  }

  // The weights of the chosen head as the background of the story's tokens
  function shade(weights, start) {
    [...$("story").children].forEach((span, position) => {
      const weight = weights?.[position - start];
      span.style.setProperty("--weight", Math.sqrt(weight ?? 0).toFixed(3));
      span.title = weight === undefined ? "" : percent(weight);
    });
  }

  function showCell({ layer, head, id, name, cell, button, strip, weight, target, tick }, maps) {
    const isChosen = String(layer === lab.head[0] && head === lab.head[1]);
    cell.dataset.chosen = isChosen;
    cell.dataset.off = String(lab.off.has(id));
    tick.checked = !lab.off.has(id);
    button.setAttribute("aria-pressed", isChosen);
    const weights = maps?.[layer][head] ?? [];
    paint(strip, weights);
    const [best] = largest(weights, 1);
    weight.textContent = maps ? `${Math.round(100 * weights[best])} %` : "";
    target.textContent = maps ? lab.quoted(lab.session.start + best) : "";
    target.title = target.textContent;
    const where = maps ? `: ${weight.textContent} on ${target.textContent}` : "";
    button.setAttribute("aria-label", `${name}${where}`);
  }

  // What the run measured of the chosen head
  function showMeasured([layer, head]) {
    const id = `${layer}.${head}`;
    const measured = lab.facts.heads[id];
    const name = capitalised(lab.headName(id));
    const roles = (measured?.roles ?? []).map((role) => `${role.name} ${percent(role.score)}`);
    const cost = costOf(measured);
    const parts = [];
    if (roles.length) parts.push(`it usually attends to ${roles.join(", ")}`);
    const change = cost === UNCLEAR ? "does not change measurably" : `changes by ${cost}`;
    if (cost) parts.push(`without it, the probability of the right ${token} ${change}`);
    $("head-about").textContent = parts.length ? `${name}, over many stories: ${parts.join("; ")}.` : "";
  }

  // The likeliest tokens with every head on, beside what is left with heads off
  function showEffect(position) {
    const on = lab.intactChances(position);
    $("effect-bars").replaceChildren();
    if (!on) return;
    const isChanged = lab.off.size > 0;
    const now = isChanged ? lab.ownChances(position) : on;
    const ids = [...largest(on, SHOWN_WORDS), ...(isChanged ? largest(now, 2) : [])];
    const taken = lab.ids[position];
    if (taken !== undefined) ids.push(taken);
    for (const id of new Set(ids)) {
      const word = make("span", { className: "word" }, lab.word(id));
      const row = make("li", { className: id === taken ? "taken" : "" }, word, bar("before", on[id], percent(on[id])));
      if (isChanged) row.append(bar("after", now[id], percent(now[id])));
      $("effect-bars").append(row);
    }
    $("effect-bars").classList.toggle("single", !isChanged);
    $("effect-off").hidden = !isChanged;
  }

  function about(position, maps) {
    if (!maps) return position < 1 ? "Nothing was read before the first token." : "The model's window does not reach there.";
    const what = position < lab.ids.length ? lab.quoted(position) : `the next ${token}`;
    return `Where each head looked when the model predicted ${what} (from ${lab.quoted(position - 1)}).`;
  }

  function findCopy() {
    const found = copiedWord(lab);
    if (!found) {
      $("copied-about").textContent =
        `No head looked at an earlier copy of a ${token} here. Let the model write on, or take a longer text.`;
      return;
    }
    const { position, layer, head, weight, before, without } = found;
    lab.head = [layer, head];
    copied = { ids: lab.ids, position };
    lab.choose(position);
    $("copied-about").textContent =
      `To predict ${lab.quoted(position)}, ${lab.headName(`${layer}.${head}`)} put ${percent(weight)} of its weight on ` +
      `an earlier ${lab.quoted(position)}. Without this head, that ${token}'s probability falls from ${percent(before)} to ${percent(without)}.`;
  }

  $("heads").style.setProperty("--heads", heads);
  $("heads").classList.toggle("many", heads > 4);
  for (let layer = 0; layer < layers; layer++) {
    $("heads").append(make("p", { className: "layer" }, `Layer ${layer + 1}`));
    for (let head = 0; head < heads; head++) addCell(layer, head);
  }
  $("copied").addEventListener("click", findCopy);
  lab.watch(() => {
    const isOpen = !$("view-heads").hidden;
    const session = isOpen ? lab.read() : null;
    const position = lab.looked;
    const maps = session?.at(position - 1)?.maps;
    const [layer, head] = lab.head;
    shade(maps?.[layer][head], session?.start);
    if (!isOpen) return;
    $("heads-about").textContent = about(position, maps);
    if (lab.ids !== copied.ids || position !== copied.position) $("copied-about").textContent = "";
    for (const cell of cells) showCell(cell, maps);
    showEffect(position);
    showMeasured(lab.head);
    $("map-part").hidden = !maps;
    if (maps) showMap(lab.head, session);
  });
}
