// What the address of the page says: a pipeline, what is open in it, and the tasks of a link.

/** A pipeline and what is open in it, {name: text}, as the part of an address after "#". */
export function fragment(name, state = {}) {
  const given = Object.entries(state).filter(([, text]) => text !== "" && text !== null && text !== undefined);
  const said = new URLSearchParams(given).toString();
  return said ? `${name}?${said}` : name;
}

/** The address of a pipeline, and of what is open in it. */
export const ofState = (name, state) => `/#${fragment(name, state)}`;

/**
 * The address of one answer, or of two beside each other, with the question itself: a server that does
 * not know the answer, or no longer, can be asked again.
 */
export const ofTasks = ([id, naive], name, state) => `/t/${id}#${fragment(name, { ...state, naive })}`;

/** What is wanted: {pipeline, state, tasks}, the last of a link, one or two. */
export function wanted() {
  const [pipeline, ...rest] = location.hash.slice(1).split("?");
  const { naive, ...state } = Object.fromEntries(new URLSearchParams(rest.join("?")));
  const link = location.pathname.match(/^\/t\/([^/]+)$/);
  return { pipeline, state, tasks: link ? [decodeURIComponent(link[1]), naive].filter(Boolean) : [] };
}

/** Another address in the place of this one; `started` is a search that this window began. */
export const replace = (address, started = history.state?.started ?? null) =>
  history.replaceState({ started }, "", address);

/** An address to come back from. */
export const push = (address) => history.pushState(null, "", address);

/** Whether this window began a search; it still knows after a reload. */
export const began = (id) => history.state?.started === id;

/** Pairs as text, "0:1.5,3:2", and back: a number by its index. */
export const paired = (pairs) => [...pairs].map(([k, value]) => `${k}:${value}`).join();
export const unpaired = (text = "") =>
  new Map(text.split(",").filter(Boolean).map((pair) => pair.split(":").map(Number)));
