// What the cache saves, measured here: milliseconds per token against length.
import { largest } from "./decoding.js";
import { $, fixed, frame, startStop, svg } from "./dom.js";
import { Session } from "./session.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [52, 628, 12, 262];

// Least squares: ms = a + b * length
function slope(points) {
  const mean = (i) => points.reduce((sum, point) => sum + point[i], 0) / points.length;
  const [x, y] = [mean(0), mean(1)];
  const spread = points.reduce((sum, point) => sum + (point[0] - x) ** 2, 0);
  return spread ? points.reduce((sum, point) => sum + (point[0] - x) * (point[1] - y), 0) / spread : 0;
}

function drawChart(lines, longest, token) {
  const top = Math.max(0.1, ...Object.values(lines).flat().map(([, ms]) => ms));
  const x = (length) => LEFT + (RIGHT - LEFT) * (length / longest);
  const y = (ms) => BOTTOM - (BOTTOM - TOP) * (ms / top);
  const parts = [svg("line", { x1: LEFT, x2: RIGHT, y1: BOTTOM, y2: BOTTOM }), svg("line", { x1: LEFT, x2: LEFT, y1: TOP, y2: BOTTOM })];
  const label = (text, at) => parts.push(svg("text", at, text));
  for (const share of [0, 0.5, 1]) {
    label(String(Math.round(share * longest)), { x: x(share * longest), y: BOTTOM + 16, "text-anchor": "middle" });
    label(fixed(share * top, top < 2 ? 2 : 1), { x: LEFT - 6, y: y(share * top) + 4, "text-anchor": "end" });
  }
  label(`${token}s read so far`, { x: (LEFT + RIGHT) / 2, y: BOTTOM + 32, "text-anchor": "middle" });
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
    const last = lines.with.slice(-8);
    const [without, cached] = [lines.without.at(-1)[1], last.reduce((sum, [, ms]) => sum + ms, 0) / last.length];
    const words = `At ${lines.without.at(-1)[0]} ${token}s: ${fixed(without, 2)} ms without a cache, ${fixed(cached, 2)} ms with one.`;
    const each = (kind) => `${fixed(1000 * slope(lines[kind].slice(4)), 1)} \u00b5s`;
    $("cache-about").textContent = `${words} Each further ${token} in the text adds ${each("without")} without a cache and ${each("with")} with one.`;
    $("cache-chart").setAttribute("aria-label", $("cache-about").textContent);
  }

  startStop("cache-run", () => lab.ids.length, run);
}
