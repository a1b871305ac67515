// What the cache saves, measured here: milliseconds per token against length.
import { largest } from "./decoding.js";
import { $, fixed, frame, startStop, svg } from "./dom.js";
import { Session } from "./session.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [52, 628, 12, 262];

const median = (numbers) => numbers.sort((one, other) => one - other)[numbers.length >> 1];

// ms = base + slope * length by medians, which a pause of the browser does not move (Theil 1950, Sen 1968)
function line(points) {
  const size = Math.ceil(points.length / 24); // means of a few: the clock of a browser is coarse
  const some = [];
  for (let i = 0; i < points.length; i += size) {
    const part = points.slice(i, i + size);
    some.push([0, 1].map((which) => part.reduce((sum, point) => sum + point[which], 0) / part.length));
  }
  const slopes = some.flatMap(([x, y], i) => some.slice(i + 1).map(([later, ms]) => (ms - y) / (later - x)));
  const slope = slopes.length ? median(slopes) : 0;
  return { slope, base: median(some.map(([x, y]) => y - slope * x)) };
}

function drawChart(lines, longest, token) {
  const top = Math.max(0.1, ...Object.values(lines).flat().map(([, ms]) => ms));
  const x = (length) => LEFT + (RIGHT - LEFT) * (length / longest);
  const y = (ms) => BOTTOM - (BOTTOM - TOP) * (ms / top);
  const parts = [svg("line", { x1: LEFT, x2: RIGHT, y1: BOTTOM, y2: BOTTOM }), svg("line", { x1: LEFT, x2: LEFT, y1: TOP, y2: BOTTOM })];
  const label = (text, at) => parts.push(svg("text", at, text));
  for (const share of [0, 0.5, 1]) {
    label(String(Math.round(share * longest)), { x: x(share * longest), y: BOTTOM + 20, "text-anchor": share === 1 ? "end" : "middle" });
    label(fixed(share * top, top < 2 ? 2 : 1), { x: LEFT - 6, y: y(share * top) + 4, "text-anchor": "end" });
  }
  label(`${token}s read so far`, { x: (LEFT + RIGHT) / 2, y: BOTTOM + 42, "text-anchor": "middle" });
  label(`ms per ${token}`, { x: LEFT + 6, y: TOP + 4 });
  for (const [kind, points] of Object.entries(lines)) {
    parts.push(svg("polyline", { class: kind, points: points.map(([length, ms]) => `${x(length)},${y(ms)}`).join(" ") }));
  }
  $("cache-chart").replaceChildren(...parts);
}

export function bindCache(lab, token) {
  async function run(goesOn) {
    const { context } = lab.facts.settings;
    const lines = { without: [], with: [] };
    const sessions = { with: new Session(lab.model, lab.ids.slice(0, 1), {}), without: new Session(lab.model, lab.ids.slice(0, 1), { cached: false }) };
    const every = Math.max(1, Math.floor(context / 48));
    for (let length = 1; length <= context && goesOn(); length++) {
      const next = {};
      for (const kind of ["with", "without"]) {
        if (kind === "without" && length % every && length > 4) continue;
        const begun = performance.now();
        next[kind] = largest(sessions[kind].next(), 1)[0];
        lines[kind].push([length, performance.now() - begun]);
      }
      for (const kind of ["with", "without"]) sessions[kind].push(next.with);
      if (length % every === 0) {
        drawChart(lines, context, token);
        await frame();
      }
    }
    for (const session of Object.values(sessions)) session.close();
    const read = Math.min(100, lines.with.length);
    const [without, cached] = ["without", "with"].map((kind) => line(lines[kind].slice(lines[kind].length > 8 ? 4 : 0)));
    const ms = ({ base, slope }) => `${fixed(base + slope * read, 2)} ms`;
    const each = ({ slope }) => (slope < 0.001 ? "less than 1 \u00b5s" : `${fixed(1000 * slope, 0)} \u00b5s`);
    const words = `With ${read} ${token}s read, the next one takes ${ms(without)} without a cache, ${ms(cached)} with one.`;
    $("cache-about").textContent = `${words} Each further ${token} in the text adds ${each(without)} without a cache and ${each(cached)} with one.`;
    $("cache-chart").setAttribute("aria-label", $("cache-about").textContent);
  }

  startStop("cache-run", () => lab.ids.length, run);
}
