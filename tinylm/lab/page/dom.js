// Small helpers for the page. Text only ever becomes text nodes, never HTML.

export const $ = (id) => document.getElementById(id);

// An element with properties, attributes that start with aria- or data-, and children (elements or text)
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// New children. The focus stays at the same button of the list, for those who use the keyboard.
export function refill(list, children) {
  const buttons = () => [...list.querySelectorAll("button")];
  const position = buttons().indexOf(document.activeElement);
  list.replaceChildren(...children);
  if (position >= 0) buttons().slice(0, position + 1).findLast((button) => !button.disabled)?.focus();
}

// A button that starts work(goesOn) and asks it to end where it is pressed once more
export function startStop(id, ready, work) {
  const button = $(id);
  const label = button.textContent;
  let running = false;
  button.addEventListener("click", async () => {
    if (running || !ready()) {
      running = false;
      return;
    }
    running = true;
    button.textContent = "Stop";
    await work(() => running);
    running = false;
    button.textContent = label;
  });
}

// What an input holds, within its limits, whole where its steps are; null if that is no number
export function numberIn(id) {
  const { min, max, step, value } = $(id);
  const number = Number(value);
  if (value === "" || !Number.isFinite(number)) return null;
  const within = Math.min(Math.max(number, min === "" ? -Infinity : min), max === "" ? Infinity : max);
  return step === "1" ? Math.round(within) : within;
}

export function percent(share) {
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  return `${(100 * share).toFixed(1)} %`;
}

export function fixed(number, digits) {
  return number.toFixed(digits).replace(/^-(?=[0.]*$)/, "").replace("-", "\u2212");
}

export const pause = (ms = 0) => new Promise((done) => setTimeout(done, ms));
export const frame = () => new Promise((done) => requestAnimationFrame(done));
