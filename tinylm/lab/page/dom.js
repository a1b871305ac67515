// Small helpers for the page. Text only ever becomes text nodes, never HTML.

export const $ = (id) => document.getElementById(id);

// An element with properties, attributes (role or aria-...), and children (elements or text)
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

// New children. The focus stays at the same button of the list, for those who use the keyboard.
export function refill(list, children) {
  const position = [...list.querySelectorAll("button")].indexOf(document.activeElement);
  list.replaceChildren(...children);
  if (position >= 0) list.querySelectorAll("button")[position]?.focus();
}

// A button that starts work(goesOn); pressed again, it makes goesOn() false.
export function startStop(id, ready, work) {
  const button = $(id);
  const label = button.textContent;
  let isRunning = false;
  button.addEventListener("click", async () => {
    isRunning = !isRunning && Boolean(ready());
    if (!isRunning) return;
    button.textContent = "Stop";
    await work(() => isRunning);
    isRunning = false;
    button.textContent = label;
  });
}

// The number in an input; null if it is empty, or outside the input's limits or steps
export function numberIn(id) {
  const input = $(id);
  return input.value !== "" && input.checkValidity() ? input.valueAsNumber : null;
}

export function percent(share) {
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  return `${(100 * share).toFixed(1)} %`;
}

// A chance as a percentage, a small one as 1 in how many
export function odds(chance) {
  if (chance >= 0.01) return percent(chance);
  if (chance < 1e-6) return "under 1 in 1,000,000";
  return `1 in ${Number((1 / chance).toPrecision(2)).toLocaleString("en")}`;
}

// A bar whose length is `value` (of the list's --full), with its number
export function bar(kind, value, number) {
  const strip = make("i", { className: kind });
  strip.style.setProperty("--share", value);
  return make("span", { className: "bar" }, make("span", {}, strip), make("b", {}, number));
}

export const pause = (ms = 0) => new Promise((done) => setTimeout(done, ms));
export const frame = () => new Promise((done) => requestAnimationFrame(done));

export const capitalised = (text) => text[0].toUpperCase() + text.slice(1);
