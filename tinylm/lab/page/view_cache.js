// What the cache saves, measured here: milliseconds per token at several lengths.
import { $, bar, frame, make, startStop } from "./dom.js";
import { Session } from "./session.js";

const LENGTHS = 12; // measured

function milliseconds(session) {
  const begun = performance.now();
  session.next();
  return performance.now() - begun;
}

export function bindCache(lab, token) {
  function row(length, msWithout, msWith) {
    const name = make("span", { className: "word" }, `${length} ${token}s`);
    const without = bar("without", msWithout, `${msWithout.toFixed(1)} ms`);
    return make("li", {}, name, without, bar("with", msWith, `${msWith.toFixed(1)} ms`));
  }

  async function run(goesOn) {
    const { context } = lab.facts.settings;
    const stride = Math.ceil(context / LENGTHS);
    const cached = new Session(lab.model, []);
    $("cache-bars").replaceChildren();
    let longest = 0;
    for (let length = stride; length <= context && goesOn(); length += stride) {
      const ids = new Array(length).fill(lab.ids[0]); // the time does not depend on the words
      cached.become(ids.slice(1));
      cached.advance();
      cached.push(ids[0]);
      const msWith = milliseconds(cached);
      const msWithout = milliseconds(new Session(lab.model, ids));
      $("cache-bars").append(row(length, msWithout, msWith));
      longest = Math.max(longest, msWithout, msWith);
      $("cache-bars").style.setProperty("--full", longest);
      await frame();
    }
  }

  startStop("cache-run", () => lab.ids.length, run);
}
