// Eight steps through the page, each with something to try; figures come from this run.
import { $, fixed, make, refill } from "./dom.js";

function entropy(chances) {
  return chances.reduce((sum, chance) => (chance > 0 ? sum - chance * Math.log(chance) : sum), 0);
}

// The head that looks back most at the token before, or null if none was measured
function previousHead(heads) {
  return Object.keys(heads).find((name) => heads[name].roles?.[0] === "previous token") ?? null;
}

function steps(lab, token, show, write) {
  const { facts } = lab;
  const { settings, perplexity } = facts;
  const size = settings.vocab_size.toLocaleString("en");
  const fresh = () => {
    lab.rules = { ...facts.rules };
    write.restart();
  };
  const certain = () => {
    const { before } = lab.chances() ?? {};
    if (!before) return "";
    const unsure = Math.exp(entropy(before));
    return `Here it is as unsure as among ${fixed(unsure, 1)} equally likely ${token}s.`;
  };
  const costly = Object.entries(facts.heads).sort(([, a], [, b]) => (b.increase ?? 0) - (a.increase ?? 0))[0];
  const idle = Object.values(facts.heads).filter(({ low, high }) => low <= 0 && high >= 0).length;
  const named = (name) => name.split(".").map((number, i) => `${i ? "head" : "layer"} ${Number(number) + 1}`).join(", ");
  const previous = previousHead(facts.heads);
  return [
    {
      title: "Let it write",
      text: `The model continues the text on the screen, one ${token} after another, each drawn by chance. It has ${size} ${token}s to choose from and nothing but what it learnt.`,
      attempt: "Press \u201cWrite\u201d, then \u201cPause\u201d, \u201cUndo\u201d and \u201cOne " + token + "\u201d. Change the seed: another story. Put the old seed back: the old story.",
      action: ["Write 30 " + token + "s", () => { fresh(); write.write(30); }],
    },
    {
      title: `What could come next`,
      text: () => `At each place the model gives every ${token} a probability. ${certain()} Over many stories its perplexity is ${perplexity ? fixed(perplexity, 2) : "not known here"}: on average it is that unsure.`,
      attempt: `Choose a ${token} in the story to see what could have stood in its place. Then choose a bar: the story goes on from there, and the old text stays below as a branch.`,
      action: ["Show the bars", () => show("next")],
    },
    {
      title: "Temperature",
      text: "The logits are divided by the temperature before they become probabilities. Below 1 the likely become likelier, above 1 the bars grow alike; at 0 the likeliest is always taken.",
      attempt: "Open \u201cHow the next " + token + " is chosen\u201d and move the temperature while you look at the orange bars. The blue ones do not move: the model's own opinion stays the same.",
      action: ["Set it to 1.8", () => { lab.rules.temperature = 1.8; $("rules").open = true; show("next"); }],
    },
    {
      title: "Where each head looks",
      text: () => previous
        ? `Attention mixes what was read before into each ${token}. In this model, ${named(previous)} looks mostly at the ${token} just before, measured over many stories.`
        : `Attention mixes what was read before into each ${token}; each head looks at other places.`,
      attempt: "Choose a name that comes a second time in the story: does a head look back at where it stood first? Choose a head to shade the story with its weights.",
      action: ["Show the heads", () => { if (previous) $("heads").children[previous.split(".")[0] * settings.heads + Number(previous.split(".")[1])].querySelector("button").click(); show("heads"); }],
    },
    {
      title: "Switch a head off",
      text: () => costly?.[1].increase > 0
        ? `Some heads matter more than others. Without ${named(costly[0])} the loss rises by ${fixed(costly[1].increase, 3)} nats per ${token} over many stories, more than without any other; without ${idle} of the ${settings.layers * settings.heads} heads no change could be measured.`
        : "Some heads may matter more than others. What each one costs was not measured for this model.",
      attempt: "Take the tick away at a head, go to the bars and see whether they change. Put it back afterwards.",
      action: costly ? [`Switch ${named(costly[0])} off`, () => { lab.switchHead(costly[0], false); show("next"); }] : null,
      undo: () => lab.off.forEach((name) => lab.switchHead(name, true)),
    },
    {
      title: "Layer by layer",
      text: () => {
        const seen = lab.read()?.seen.at(-1);
        if (!seen) return "Each block adds to the state that the last one left.";
        const tops = seen.states.map((state) => lab.model.lens(state)).map((logits) => lab.word(logits.indexOf(Math.max(...logits))));
        return `Each block adds to the state that the one before left. Read out after each block, the likeliest next ${token} here is ${tops.map((word) => `\u201c${word}\u201d`).join(", then ")}.`;
      },
      attempt: `Choose an obvious ${token} of the story and a surprising one: after which block does the model know it?`,
      action: ["Show the layers", () => show("layers")],
    },
    {
      title: "Beams beside greedy",
      text: `Greedy decoding takes the likeliest ${token} each time, which need not give the likeliest text. Beam search keeps several texts at once.`,
      attempt: "Search with width 1, then 5. Is the best beam likelier than the greedy text? Is it a better story?",
      action: ["Search", () => { show("beams"); $("beams-run").click(); }],
    },
    {
      title: "Why the cache",
      text: `To write the hundredth ${token} without a cache, the model reads the ninety-nine before it once more. With a cache it reads one.`,
      attempt: "Measure, and compare the two lines: which one rises with the length?",
      action: ["Measure", () => { show("cache"); $("cache-run").click(); }],
    },
  ];
}

export function bindTour(lab, token, write, show) {
  const all = steps(lab, token, show, write);
  let at = 0;

  function open(place) {
    all[at].undo?.();
    at = place;
    const { title, text, attempt, action } = all[at];
    const back = make("button", { type: "button", disabled: at === 0 }, "Back");
    const next = make("button", { type: "button", className: "main", disabled: at === all.length - 1 }, "Next step");
    back.addEventListener("click", () => open(at - 1));
    next.addEventListener("click", () => open(at + 1));
    const buttons = make("div", { className: "row" });
    if (action) {
      const start = make("button", { type: "button" }, action[0]);
      start.addEventListener("click", action[1]);
      buttons.append(start);
    }
    buttons.append(back, next);
    refill($("tour"), [
      make("p", { className: "note" }, `Step ${at + 1} of ${all.length}`),
      make("h3", {}, title),
      make("p", {}, typeof text === "function" ? text() : text),
      make("p", {}, make("strong", {}, "Try: "), attempt),
      buttons,
    ]);
  }

  open(0);
}
