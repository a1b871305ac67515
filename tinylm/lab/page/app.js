// Opens what the page holds, builds the model and binds the views.
import { bindBanner } from "./banner.js";
import { $ } from "./dom.js";
import { Lab } from "./lab.js";
import { openTokenizer } from "./tokenizer.js";
import { bindTyped } from "./typed.js";
import { bindBeams } from "./view_beams.js";
import { bindCache } from "./view_cache.js";
import { bindCheckpoints } from "./view_checkpoints.js";
import { bindHeads } from "./view_heads.js";
import { bindNext } from "./view_next.js";
import { bindWriting } from "./write.js";

const root = document.documentElement;

// A button with data-view shows that view.
function bindViews(lab) {
  const show = (name) => {
    for (const view of document.querySelectorAll(".view")) view.hidden = view.id !== `view-${name}`;
    for (const tab of $("tabs").children) {
      tab.setAttribute("aria-current", String(tab.dataset.view === name));
    }
    lab.changed();
  };
  for (const button of document.querySelectorAll("[data-view]")) {
    button.addEventListener("click", () => {
      show(button.dataset.view);
      if (!root.classList.contains("stacked")) return;
      $("tabs").style.scrollMarginTop = `${$("text-part").offsetHeight}px`; // it stays at the top
      $("tabs").scrollIntoView();
    });
  }
  const narrow = matchMedia("(max-width: 62rem)");
  const stack = () => root.classList.toggle("stacked", narrow.matches);
  narrow.addEventListener("change", stack);
  stack();
  // The tour shows nothing of a chosen word, so a choice there leads on to its probabilities.
  for (const id of ["story", "typed"]) {
    $(id).addEventListener("click", () => {
      if (!$("view-tour").hidden && lab.chosen !== null) show("next");
    });
  }
  show("tour");
}

function openLab() {
  const facts = JSON.parse($("facts").textContent);
  const lab = new Lab(facts, openTokenizer(facts.tokenizer));
  const { token } = facts;
  bindBanner(lab);
  bindTyped(lab);
  bindWriting(lab, token);
  bindNext(lab, token);
  bindHeads(lab);
  bindBeams(lab, token);
  bindCache(lab, token);
  if (facts.checkpoints.length > 1) bindCheckpoints(lab);
  else for (const element of document.querySelectorAll(".of-checkpoints")) element.remove();
  if (!facts.truths.length) {
    for (const element of document.querySelectorAll(".of-truth")) element.remove();
  }
  bindViews(lab);
  $("lab").hidden = false;
  return lab;
}

try {
  globalThis.lab = openLab(); // for the console: lab.chances(), lab.model
} catch (error) {
  $("broken").hidden = false;
  throw error;
}
