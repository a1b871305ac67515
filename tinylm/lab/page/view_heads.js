// Every head over the text: where it looks from the chosen token, what it was measured to do, and a switch.
import { largest } from "./decoding.js";
import { $, fixed, make, percent } from "./dom.js";

function heat() {
  const number = Number.parseInt(getComputedStyle(document.documentElement).getPropertyValue("--heat").trim().slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}

// Weights as pixels; the square root keeps small ones visible.
function paint(canvas, width, height, weight) {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const [red, green, blue] = heat();
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) image.data.set([red, green, blue, 255 * Math.sqrt(weight(y, x))], 4 * (y * width + x));
  }
  context.putImageData(image, 0, 0);
}

export function bindHeads(lab) {
  const { layers, heads: perLayer } = lab.facts.settings;
  const cells = [];

  function costs({ increase, low, high } = {}) {
    if (increase === undefined) return "";
    if (low <= 0 && high >= 0) return "off: no measurable change";
    return `off: ${increase > 0 ? "+" : ""}${fixed(increase, 3)} nats`;
  }

  $("heads").style.setProperty("--heads", perLayer);
  for (let l = 0; l < layers; l++) {
    for (let h = 0; h < perLayer; h++) {
      const measured = lab.facts.heads[`${l}.${h}`];
      const strip = make("canvas", { className: "strip", "aria-hidden": "true" });
      const looks = make("span", { className: "looks" });
      const role = (measured?.roles ?? []).map(({ name, score }) => `${name} ${percent(score)}`).join("; ");
      const words = [role, costs(measured)].filter(Boolean).join("; ");
      const title = make("strong", {}, `Layer ${l + 1}, head ${h + 1}`);
      const button = make("button", { type: "button", "aria-pressed": "false" }, title, looks);
      const tick = make("input", { type: "checkbox", checked: true });
      tick.setAttribute("aria-label", `Layer ${l + 1}, head ${h + 1} is on`);
      const cell = make("div", { className: "head" }, button, strip, make("span", { className: "role" }, words), make("label", {}, tick, "on"));
      button.addEventListener("click", () => lab.lookAt(l, h));
      tick.addEventListener("change", () => lab.switchHead(`${l}.${h}`, tick.checked));
      cells.push({ l, h, cell, button, strip, looks, tick });
    }
  }
  $("heads").append(...cells.map(({ cell }) => cell));
  $("heads-note").textContent = lab.facts.heads_note;

  function shade(weights, start) {
    [...$("story").children].forEach((span, position) => {
      const weight = weights?.[position - start];
      span.style.setProperty("--weight", Math.sqrt(weight ?? 0).toFixed(3));
      span.title = weight === undefined ? "" : percent(weight);
    });
  }

  // The head that looks most from a place at where this token stood before the token at `end`, in words
  function most(session, position, id, end) {
    const earlier = session.seen.flatMap((_, i) => (session.start + i < end && lab.ids[session.start + i] === id ? [i] : []));
    const shares = cells.map(({ l, h }) => earlier.reduce((sum, i) => sum + (session.at(position)?.maps[l][h][i] ?? 0), 0));
    const best = shares.indexOf(Math.max(...shares));
    return shares[best] > 0 ? `layer ${cells[best].l + 1}, head ${cells[best].h + 1} (${percent(shares[best])})` : null;
  }

  function looksBack(session, position) {
    const id = lab.ids[position];
    const [reading, saying] = [most(session, position, id, position), most(session, position - 1, id, position)];
    const word = `\u201c${lab.word(id)}\u201d`;
    if (!reading) return `${word} did not stand in the text before.`;
    const lookers = saying ? `; from the ${lab.facts.token} just before, where the model had to predict it, ${saying}` : "";
    return `${word} stood in the text before. The head that looks back there most is ${reading}${lookers}.`;
  }

  lab.watch(() => {
    const open = !$("view-heads").hidden;
    const [layer, head] = lab.head;
    const session = open ? lab.read() : null;
    const position = lab.chosen ?? lab.ids.length - 1;
    const seen = session?.at(position);
    shade(seen?.maps[layer][head], session?.start);
    if (!open) return;
    $("heads-about").textContent = seen
      ? `Where each head looks from ${lab.named(position)}. Choose another ${lab.facts.token} in the story; choose a head to shade the story with its weights.`
      : "This place is outside the window that the model sees.";
    $("heads-back").textContent = seen ? looksBack(session, position) : "";
    for (const { l, h, cell, button, strip, looks, tick } of cells) {
      const weights = seen?.maps[l][h];
      const off = lab.off.has(`${l}.${h}`);
      cell.dataset.chosen = String(l === layer && h === head);
      cell.dataset.off = String(off);
      button.setAttribute("aria-pressed", cell.dataset.chosen);
      tick.checked = !off;
      if (!weights) continue;
      paint(strip, weights.length, 1, (_, x) => weights[x]);
      const [best] = largest(weights, 1);
      const where = best === weights.length - 1 ? "itself" : `\u201c${lab.word(lab.ids[session.start + best])}\u201d`;
      looks.textContent = `${percent(weights[best])} on ${where}`;
    }
    const rows = session.seen.map(({ maps }) => maps[layer][head]);
    paint($("map"), rows.length, rows.length, (y, x) => rows[y][x] ?? 0);
    const words = `Layer ${layer + 1}, head ${head + 1}: each row is a ${lab.facts.token} of the text, each column a ${lab.facts.token} that it looks at; the stronger the colour, the more.`;
    $("map-about").textContent = words;
    $("map").setAttribute("aria-label", words);
  });
}
