// Small helpers around the document. Styles that depend on numbers are set with setProperty, as the
// page's policy allows no style attributes.

export const byId = (id) => document.getElementById(id);

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) node.style.setProperty(name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** An HTML element: attributes, `on...` listeners, `--...` custom properties, then children. */
export const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

/** The same for SVG. */
export const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

/** A picture that the server drew, as a node; scripts and style attributes stay inert. */
export function drawn(text) {
  if (!text) return null;
  const root = new DOMParser().parseFromString(text, "text/html").querySelector("svg");
  return root && document.importNode(root, true);
}

/** A line of a legend: how it is drawn, what it is, and what it costs. */
export const legendEntry = (role, weight, what, value = "") =>
  el("div", {}, el("dt", {}, el("i", { class: `stroke ${weight} ${role}` }), what), el("dd", {}, value));

/** Say something to those who listen to the page; said again even if it is the same. */
export function announce(words) {
  const region = byId("polite");
  region.textContent = region.textContent === words ? `${words}\u00a0` : words;
}

/**
 * Show a message that must not be missed, or take it away.
 * @param calm whether nothing went wrong
 * @param again what can be tried once more
 */
export function notice(words, { calm = false, again = null } = {}) {
  const box = byId("notice");
  box.hidden = !words;
  box.classList.toggle("calm", calm);
  box.querySelector("p").textContent = words || "";
  const retry = byId("retry");
  retry.hidden = !again;
  retry.onclick = again;
}

/** Do something; what goes wrong is reported, with a way to try again where that may help. */
export async function guarded(work) {
  try {
    await work();
  } catch (error) {
    notice(error.message, { again: error.passing ? () => guarded(work) : null });
  }
}

/** Whether a button does anything; it keeps the focus, which one that is disabled would lose. */
export const usable = (button, yes) => button.setAttribute("aria-disabled", String(!yes));

/** A line in small letters; nothing where there is nothing to say. */
export const small = (words) => words && el("p", { class: "small" }, words);
