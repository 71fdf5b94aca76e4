// What the address of the page says: a pipeline, or the tasks of a link.

/** The address of a pipeline. */
export const ofPipeline = (name) => `/#${name}`;

/** The address of one answer, or of two beside each other. */
export const ofTasks = ([id, naive]) => `/t/${id}${naive ? `#naive=${naive}` : ""}`;

/** What is wanted: {tasks} of a link, one or two, or {pipeline}. */
export function wanted() {
  const link = location.pathname.match(/^\/t\/([^/]+)$/);
  if (!link) return { pipeline: location.hash.slice(1) };
  const naive = new URLSearchParams(location.hash.slice(1)).get("naive");
  return { tasks: [decodeURIComponent(link[1]), naive].filter(Boolean) };
}

/** Another address in the place of this one; `started` is a search that this window began. */
export const replace = (address, started = null) => history.replaceState({ started }, "", address);

/** An address to come back from. */
export const push = (address) => history.pushState(null, "", address);

/** Whether this window began a search; it still knows after a reload. */
export const began = (id) => history.state?.started === id;
