// What the cache saves, measured here: milliseconds per token against length.
import { $, frame, startStop, svg } from "./dom.js";
import { Session } from "./session.js";

const LEFT = 52;
const RIGHT = 616;
const TOP = 12;
const BOTTOM = 262;
const LENGTHS = 24; // measured

function milliseconds(session) {
  const begun = performance.now();
  session.next();
  return performance.now() - begun;
}

// lines: name -> [[length, ms]]
function drawChart(lines, longest, token) {
  const slowest = Math.max(...Object.values(lines).flat().map(([, ms]) => ms));
  const x = (length) => LEFT + (RIGHT - LEFT) * (length / longest);
  const y = (ms) => BOTTOM - (BOTTOM - TOP) * (ms / slowest);
  const label = (text, attributes) => svg("text", attributes, text);
  const parts = [
    svg("line", { x1: LEFT, x2: RIGHT, y1: BOTTOM, y2: BOTTOM }),
    svg("line", { x1: LEFT, x2: LEFT, y1: TOP, y2: BOTTOM }),
    label(`${token}s read so far`, { x: LEFT + 230, y: BOTTOM + 42 }),
    label(`ms per ${token}`, { x: LEFT + 6, y: TOP + 4 }),
  ];
  for (const share of [0, 0.5, 1]) {
    const length = Math.round(share * longest);
    const ms = share * slowest;
    parts.push(label(length, { x: x(length), y: BOTTOM + 20, "text-anchor": "middle" }));
    parts.push(label(ms.toFixed(1), { x: LEFT - 6, y: y(ms) + 4, "text-anchor": "end" }));
  }
  for (const [name, line] of Object.entries(lines)) {
    const points = line.map(([length, ms]) => `${x(length)},${y(ms)}`).join(" ");
    parts.push(svg("polyline", { class: name, points }));
  }
  $("cache-chart").replaceChildren(...parts);
}

export function bindCache(lab, token) {
  async function run(goesOn) {
    const { context } = lab.facts.settings;
    const lines = { without: [], with: [] };
    const cached = new Session(lab.model, []);
    const stride = Math.ceil(context / LENGTHS);
    for (let length = stride; length <= context && goesOn(); length += stride) {
      const ids = new Array(length).fill(lab.ids[0]); // the time does not depend on the words
      cached.become(ids.slice(1));
      cached.advance();
      cached.push(ids[0]);
      const ms = milliseconds(cached);
      const msWithout = milliseconds(new Session(lab.model, ids));
      lines.with.push([length, ms]);
      lines.without.push([length, msWithout]);
      drawChart(lines, context, token);
      const times = `${msWithout.toFixed(1)} ms without a cache, ${ms.toFixed(1)} ms with one`;
      $("cache-about").textContent = `After ${length} ${token}s, the next takes ${times}.`;
      await frame();
    }
  }

  startStop("cache-run", () => lab.ids.length, run);
}
