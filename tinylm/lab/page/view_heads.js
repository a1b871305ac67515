// Every head over the text: where it attends, what the run measured of it, and a switch.
import { largest } from "./decoding.js";
import { $, make, percent } from "./dom.js";

// Weights as pixels; the square root keeps small ones visible.
function paint(canvas, width, height, weight) {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--heat");
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      context.globalAlpha = Math.sqrt(weight(y, x));
      context.fillRect(x, y, 1, 1);
    }
  }
}

// Roles and what the right token loses without the head; "" if the run did not measure them
function measuredWords(token, { roles = [], increase, low, high } = {}) {
  const words = roles.map(({ name, score }) => `${name} ${percent(score)}`);
  const isClear = low > 0 || high < 0;
  const change = 100 * Math.expm1(-increase);
  const sign = change > 0 ? "+" : "\u2212";
  if (isClear) words.push(`off: right ${token} ${sign}${Math.abs(change).toFixed(1)} %`);
  else if (increase !== undefined) words.push("off: no measurable change");
  return words.join("; ");
}

export function bindHeads(lab) {
  const { layers, heads } = lab.facts.settings;
  const cells = [];

  function addCell(layer, head) {
    const name = `Layer ${layer + 1}, head ${head + 1}`;
    const id = `${layer}.${head}`;
    const strip = make("canvas", { className: "strip", "aria-hidden": "true" });
    const target = make("span", { className: "target" });
    const title = make("strong", {}, name);
    const button = make("button", { type: "button", "aria-pressed": "false" }, title, target);
    const role = make("span", { className: "role" }, measuredWords(lab.facts.token, lab.facts.heads[id]));
    const box = { type: "checkbox", checked: true, "aria-label": `${name} is on` };
    const tick = make("input", box);
    const label = make("label", {}, tick, "on");
    const cell = make("div", { className: "head" }, button, strip, role, label);
    button.addEventListener("click", () => lab.lookAt(layer, head));
    tick.addEventListener("change", () => lab.switchHead(id, tick.checked));
    cells.push({ layer, head, id, cell, button, strip, target });
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

  function showCell({ layer, head, id, cell, button, strip, target }, maps) {
    const isChosen = String(layer === lab.head[0] && head === lab.head[1]);
    cell.dataset.chosen = isChosen;
    cell.dataset.off = String(lab.off.has(id));
    button.setAttribute("aria-pressed", isChosen);
    if (!maps) return;
    const weights = maps[layer][head];
    const [best] = largest(weights, 1);
    paint(strip, weights.length, 1, (_, x) => weights[x]);
    target.textContent = `${percent(weights[best])} on ${lab.quoted(lab.session.start + best)}`;
  }

  function showMap([layer, head], seen) {
    const rows = seen.map(({ maps }) => maps[layer][head]);
    paint($("map"), rows.length, rows.length, (y, x) => rows[y][x] ?? 0);
    const { token } = lab.facts;
    const axes = `each row is a ${token} of the text, each column a ${token} that it attends to`;
    $("map-about").textContent = `Layer ${layer + 1}, head ${head + 1}: ${axes}.`;
  }

  $("heads").style.setProperty("--heads", heads);
  for (let layer = 0; layer < layers; layer++) {
    for (let head = 0; head < heads; head++) addCell(layer, head);
  }
  lab.watch(() => {
    const isOpen = !$("view-heads").hidden;
    const session = isOpen ? lab.read() : null;
    const position = lab.chosen ?? lab.ids.length - 1;
    const maps = session?.at(position)?.maps;
    const [layer, head] = lab.head;
    shade(maps?.[layer][head], session?.start);
    if (!isOpen) return;
    $("heads-about").textContent = maps
      ? `Where each head attends from ${lab.quoted(position)}. Choose a head to shade the story.`
      : "The model's window does not reach there.";
    for (const cell of cells) showCell(cell, maps);
    showMap(lab.head, session?.seen ?? []);
  });
}
