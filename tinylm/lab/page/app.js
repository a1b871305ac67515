// Opens what the page holds, builds the model and binds the views.
import { bindBeams } from "./view_beams.js";
import { bindCache } from "./view_cache.js";
import { $, make } from "./dom.js";
import { Lab } from "./lab.js";
import { bindHeads } from "./view_heads.js";
import { bindLayers } from "./view_layers.js";
import { bindCheckpoints } from "./view_checkpoints.js";
import { bindNext } from "./view_next.js";
import { inflated, readTensors } from "./package.js";
import { openTokenizer } from "./tokenizer.js";
import { bindTour } from "./tour.js";
import { bindWriting } from "./write.js";

// Tabs by the pattern of the ARIA Authoring Practices: arrow keys move, Tab leaves.
function bindTabs(lab) {
  const panels = [...document.querySelectorAll("[role=tabpanel]")].filter((panel) => !panel.dataset.absent);
  const tabs = panels.map((panel) => {
    const name = panel.id.replace("view-", "");
    return make("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": panel.id }, panel.dataset.name);
  });
  const open = (position, focus = true) => {
    tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", String(i === position));
      tab.tabIndex = i === position ? 0 : -1;
      panels[i].hidden = i !== position;
    });
    if (focus) tabs[position].focus();
    lab.changed();
  };
  tabs.forEach((tab, position) => {
    tab.addEventListener("click", () => open(position));
    tab.addEventListener("keydown", ({ key }) => {
      const next = { ArrowRight: position + 1, ArrowLeft: position - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[key];
      if (next !== undefined) open(next % tabs.length);
    });
  });
  $("tabs").append(...tabs);
  open(0, false);
  return (name) => open(panels.findIndex((panel) => panel.id === `view-${name}`), false);
}

async function openLab() {
  const facts = JSON.parse($("facts").textContent);
  const tensors = facts.checkpoints.map((checkpoint, position) => async () => {
    const text = $(`weights-${position}`).textContent;
    return readTensors(checkpoint.tensors, await inflated(text));
  });
  const lab = new Lab(facts, openTokenizer(facts.tokenizer), tensors);
  await lab.useCheckpoint(facts.checkpoints.length - 1);
  if (facts.checkpoints.length < 2) $("view-checkpoints").dataset.absent = "yes";
  const token = facts.token;
  const writing = bindWriting(lab, token);
  bindNext(lab, token);
  bindHeads(lab);
  bindLayers(lab);
  bindBeams(lab, token);
  bindCache(lab, token);
  bindCheckpoints(lab);
  $("lab").hidden = false;
  const show = bindTabs(lab);
  bindTour(lab, token, writing, show);
  return lab;
}

try {
  globalThis.lab = await openLab(); // for the console: lab.chances(), lab.model
} catch (error) {
  $("broken").hidden = false;
  throw error;
}
