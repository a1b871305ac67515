// Eight steps through the page, each with something to try; figures come from this run.
import { $, fixed, make, percent, refill } from "./dom.js";

function entropy(chances) {
  return chances.reduce((sum, chance) => (chance > 0 ? sum - chance * Math.log(chance) : sum), 0);
}

// The head that is named with the largest share of its weight on the token before, or null if none was measured
function previousHead(heads) {
  const share = ([, { roles }]) => roles?.find(({ name }) => name === "previous token")?.score ?? 0;
  const best = Object.entries(heads).sort((one, other) => share(other) - share(one))[0];
  const role = best?.[1].roles?.find(({ name }) => name === "previous token");
  return role ? { ...role, name: best[0] } : null;
}

function steps(lab, token, show, write) {
  const { facts } = lab;
  const { settings, perplexity, rules } = facts;
  const size = settings.vocab_size.toLocaleString("en");
  const chance = rules.temperature > 0;
  const openRules = `open \u201cHow the next ${token} is chosen\u201d`;
  const fresh = () => {
    lab.rules = { ...rules };
    write.restart();
  };
  const certain = () => {
    const { before } = lab.chances() ?? {};
    if (!before) return "";
    const unsure = Math.exp(entropy(before));
    if (unsure < 1.05) return "Here it is all but certain.";
    return `Here it is as unsure as if it chose among ${fixed(unsure, 1)} equally likely ${token}s.`;
  };
  const costly = Object.entries(facts.heads).sort(([, a], [, b]) => (b.increase ?? 0) - (a.increase ?? 0))[0];
  const needed = costly?.[1].increase > 0;
  const idle = Object.values(facts.heads).filter(({ low, high }) => low <= 0 && high >= 0).length;
  const named = (name) => name.split(".").map((number, i) => `${i ? "head" : "layer"} ${Number(number) + 1}`).join(", ");
  const previous = previousHead(facts.heads);
  const long = Math.min(100, settings.context);
  const looks = previous
    ? ` In this model, ${named(previous.name)} stands out: over many stories ${percent(previous.score)} of its weight falls on the ${token} just before (${percent(previous.even)} if it were spread evenly).`
    : " Each head looks at places of its own.";
  const costs = needed
    ? ` Without ${named(costly[0])} the loss rises by ${fixed(costly[1].increase, 3)} nats per ${token}, more than without any other head; ${idle ? `${idle} of ${settings.layers * settings.heads} make no measurable difference` : "each of the heads makes a measurable difference"}.`
    : "";
  const all = [
    {
      title: "Let it write",
      text: `The model continues the text on the screen, one ${token} after another, ${chance ? "each drawn by chance" : "the likeliest each time"}. It chooses among ${size} ${token}s, and all it knows comes from the texts that it was trained on.`,
      attempt: `Press \u201cWrite\u201d, then \u201cPause\u201d, \u201cUndo\u201d and \u201cOne ${token}\u201d. Then ${openRules}, ${chance ? "" : "raise the temperature, "}change the seed and press \u201cStart again\u201d and \u201cWrite\u201d: another story. With the old seed the old story comes back.`,
      actions: { [`Write 30 ${token}s`]: () => { fresh(); write.write(30); } },
    },
    {
      title: "What could come next",
      text: () => `At each place the model gives every ${token} a probability. ${certain()}${perplexity ? ` Over many stories its perplexity is ${fixed(perplexity, 2)}: on average it is as unsure as among that many.` : ""}`,
      attempt: `Choose a ${token} in the story to see what could have stood in its place. Then choose a bar: the story goes on from there, and the old text is kept below the story as a branch.`,
      actions: { "Show the bars": () => show("next") },
    },
    {
      title: "Temperature",
      text: "The model's scores (logits) are divided by the temperature before they become probabilities. Below 1 the likely become likelier still, above 1 the bars become more alike; at 0 the likeliest is always taken.",
      attempt: "Move the temperature and watch the orange bars. The blue percentages stay as they are: they are the model's own. The tour puts the temperature back when you leave this step.",
      actions: { "Set the temperature to 1.8": () => { lab.rules.temperature = 1.8; $("rules").open = true; show("next", "temperature"); } },
      undo: () => { lab.rules.temperature = rules.temperature; lab.changed(); },
    },
    {
      title: "What the heads look at",
      text: `Attention mixes what was read before into each ${token}.${looks}${costs}`,
      attempt: `Choose a name that comes a second time in the story: which head looks back at where it stood first? Then take the tick away at a head: do the bars of the next ${token} change?`,
      actions: {
        "Show the heads": () => { show("heads"); if (previous) lab.lookAt(...previous.name.split(".").map(Number)); },
        ...(needed && { [`Switch ${named(costly[0])} off`]: () => { lab.switchHead(costly[0], false); show("next"); } }),
      },
      undo: () => [...lab.off].forEach((name) => lab.switchHead(name, true)),
    },
    {
      title: "Layer by layer",
      text: () => {
        const seen = lab.read()?.seen.at(-1);
        if (!seen) return "Each layer adds to the state that the one before left.";
        const tops = seen.states.map((state) => lab.model.lens(state)).map((logits) => lab.word(logits.indexOf(Math.max(...logits))));
        return `Each layer adds to the state that the one before left. Read out after each layer, the likeliest next ${token} here is ${tops.map((word) => `\u201c${word}\u201d`).join(", then ")}.`;
      },
      attempt: `Choose an obvious ${token} of the story and a surprising one: after which layer does the model know it?`,
      actions: { "Show the layers": () => show("layers") },
    },
    {
      title: "Beams beside greedy",
      text: `Greedy decoding takes the likeliest ${token} each time, which need not give the likeliest text. Beam search keeps several texts at once.`,
      attempt: "Search with width 1, then 5. Is the best beam likelier than the greedy text? Is it a better story?",
      actions: { Search: () => { show("beams"); $("beams-run").click(); } },
    },
    {
      title: "Why the cache",
      text: `To write ${token} number ${long} without a cache, the model reads the ${long - 1} before it once more. With a cache it reads one.`,
      attempt: "Measure, and compare the two lines: which one rises with the length?",
      actions: { Measure: () => { show("cache"); $("cache-run").click(); } },
    },
  ];
  if (facts.checkpoints.length < 2) return all;
  return [...all, {
    title: "How it learnt",
    text: `The run kept the weights of ${facts.checkpoints.length - 1} earlier checkpoints. The earliest was kept ${facts.checkpoints[0].name}.`,
    attempt: `Choose the earliest checkpoint and look at the next ${token} and at the heads: the whole page is then that younger model. What did it learn first: ${token}s, order, or a story?`,
    actions: { "Show the checkpoints": () => show("checkpoints") },
    undo: () => lab.useCheckpoint(facts.checkpoints.length - 1),
  }];
}

export function bindTour(lab, token, write, open) {
  let [at, used] = [0, false];
  // A view opens with the step above it, and the focus at the way back or at the control to try.
  const show = (name, control = "guide-back") => {
    open(name);
    $(control).focus({ preventScroll: true });
    const top = $(control === "guide-back" ? "tabs" : "rules");
    top.scrollIntoView({ block: innerWidth < 992 ? "start" : "nearest" }); // in one column the story is above
  };
  const all = steps(lab, token, show, write);

  function goTo(step) {
    if (used) all[at].undo?.();
    [at, used] = [step, false];
    const { title, text, attempt, actions } = all[at];
    const button = (label, click, properties = {}) => {
      const element = make("button", { type: "button", ...properties }, label);
      element.addEventListener("click", click);
      return element;
    };
    const tries = Object.entries(actions).map(([label, work]) => button(label, () => { used = true; work(); }));
    $("guide-text").textContent = `Step ${at + 1} of ${all.length}. ${attempt}`;
    refill($("tour"), [
      make("p", { className: "note" }, `Step ${at + 1} of ${all.length}`),
      make("h3", {}, title),
      make("p", {}, typeof text === "function" ? text() : text),
      make("p", {}, make("strong", {}, "Try: "), attempt),
      make("div", { className: "row" }, ...tries),
      make("div", { className: "row" },
        button("Back", () => goTo(at - 1), { disabled: at === 0 }),
        button("Next step", () => goTo(at + 1), { className: "main", disabled: at === all.length - 1 })),
    ]);
  }

  $("guide-back").addEventListener("click", () => {
    open("tour");
    [...$("tour").querySelectorAll("button")].findLast((button) => !button.disabled).focus();
  });
  lab.watch(() => ($("guide").hidden = !used || !$("view-tour").hidden));
  goTo(0);
}
