// As much of a browser as the page uses, without a screen: elements, events, and callbacks on demand.
const callbacks = [];

class ClassList extends Set {
  toggle(name, on = !this.has(name)) {
    if (on) this.add(name);
    else this.delete(name);
    return on;
  }

  contains(name) {
    return this.has(name);
  }
}

class FakeElement {
  constructor(tag, attributes = {}) {
    Object.assign(this, { tag, nodes: [], listeners: {}, dataset: {}, hidden: false, value: "" });
    this.classList = new ClassList();
    this.style = { values: {}, setProperty: (name, value) => (this.style.values[name] = String(value)) };
    this.attributes = attributes;
    for (const [name, value] of Object.entries(attributes)) this.setAttribute(name, value ?? "");
  }

  setAttribute(name, value) {
    this.attributes[name] = String(value);
    if (name === "class") String(value).split(" ").forEach((one) => this.classList.add(one));
    else if (name.startsWith("data-")) this.dataset[name.slice(5)] = value;
    else if (name === "hidden" || name === "checked") this[name] = true;
    else this[name] ??= value;
    if (name === "id" || name === "value" || name === "max") this[name] = value;
  }

  set className(names) {
    this.setAttribute("class", names);
  }

  get textContent() {
    return this.nodes.map((node) => node.textContent ?? node).join("");
  }

  set textContent(text) {
    this.nodes = [text];
  }

  get children() {
    return this.nodes.filter((node) => node instanceof FakeElement);
  }

  get valueAsNumber() {
    return Number(this.value);
  }

  append(...children) {
    for (const child of children) if (child instanceof FakeElement) child.parentElement = this;
    this.nodes.push(...children);
  }

  replaceChildren(...children) {
    this.nodes = [];
    this.append(...children);
  }

  remove() {
    this.isRemoved = true;
  }

  all() {
    return this.children.flatMap((child) => [child, ...child.all()]);
  }

  matches(selector) {
    if (selector.startsWith(".")) return this.classList.has(selector.slice(1));
    if (selector === "[data-view]") return "view" in this.dataset;
    return this.tag === selector;
  }

  querySelectorAll(selector) {
    return this.all().filter((element) => element.matches(selector));
  }

  closest(selector) {
    return this.matches(selector) ? this : this.parentElement?.closest(selector) ?? null;
  }

  addEventListener(type, listener) {
    (this.listeners[type] ??= []).push(listener);
  }

  send(type, event = {}) {
    for (let place = this; place; place = place.parentElement) {
      place.listeners[type]?.forEach((listener) => listener({ target: this, preventDefault() {}, ...event }));
    }
  }

  checkValidity() {
    return true;
  }

  getContext() {
    const methods = ["fillRect", "fillText", "save", "restore", "translate", "rotate"];
    return Object.fromEntries(methods.map((name) => [name, () => {}]));
  }

  focus() {}
  scrollIntoView() {}
}

function built([tag, attributes, children]) {
  const element = new FakeElement(tag, attributes);
  element.append(...children.map((child) => (Array.isArray(child) ? built(child) : child)));
  return element;
}

let documentElement;
var document = {
  get documentElement() {
    return documentElement;
  },
  getElementById: (id) => documentElement.all().find((element) => element.id === id),
  querySelectorAll: (selector) => documentElement.querySelectorAll(selector),
  createElement: (tag) => new FakeElement(tag),
};
var getComputedStyle = () => ({ getPropertyValue: () => "" });
var matchMedia = () => ({ matches: false, addEventListener() {} });
var requestAnimationFrame = (callback) => callbacks.push(callback);
var setTimeout = (callback) => callbacks.push(callback);
var performance = { now: () => 0 };

// Elements by "#id", "#id tag" or ".class"
function find(selector) {
  const [first, rest] = selector.split(" ");
  if (!first.startsWith("#")) return document.querySelectorAll(first);
  const element = document.getElementById(first.slice(1));
  return rest ? element.querySelectorAll(rest) : [element];
}

// Call what waits for a frame or a time; whether there was anything.
function turn() {
  const due = callbacks.splice(0);
  due.forEach((callback) => callback());
  return due.length > 0;
}

// V8 alone has no atob.
function atob(base64) {
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  let bits = "";
  for (const digit of base64.replace(/=+$/, "")) bits += digits.indexOf(digit).toString(2).padStart(6, "0");
  const bytes = bits.match(/.{8}/g) ?? [];
  return bytes.map((byte) => String.fromCharCode(parseInt(byte, 2))).join("");
}
