// The page from its address: which pipeline, or which result of a link.

import * as api from "./api.js";
import { announce, byId, el, notice } from "./dom.js";
import { Maps } from "./maps.js";
import { hideResult } from "./result.js";
import { Tables } from "./tables.js";

const TITLES = { route: "Why this route, and not yours?", selection: "Why this selection, and not yours?" };
const RETRY = 300;

const views = { map: new Maps(), table: new Tables() };
let list = [];
let opening = 0; // of several pages asked for, the last one counts

/** The pipelines, as soon as the server's workers have loaded them. */
async function known() {
  for (;;) {
    list = await api.pipelines();
    if (list.length && list.every((one) => one.ready || one.fault)) return;
    byId("map-name").textContent = "the models are loading";
    await new Promise((resolve) => setTimeout(resolve, RETRY));
  }
}

async function open(name, task = null) {
  const turn = ++opening;
  const link = (one) => {
    const current = one.name === name ? "page" : null;
    return el("a", { href: `/#${one.name}`, "aria-current": current }, one.title);
  };
  byId("pipelines").replaceChildren(...list.map((one) => el("li", {}, link(one))));
  const { kind, fault } = list.find((one) => one.name === name);
  if (fault) throw new Error(`This pipeline could not be loaded: ${fault}`);
  byId("map-view").hidden = kind !== "map";
  byId("table-view").hidden = kind === "map";
  for (const view of Object.values(views)) view.leave();
  hideResult();
  notice("");
  const pipeline = await api.pipeline(name);
  if (turn !== opening) return;
  document.title = `${pipeline.title} · cfopt explorer`;
  byId("title").textContent = TITLES[pipeline.noun] ?? "Why this decision, and not yours?";
  byId("about").textContent = pipeline.about;
  announce(pipeline.title);
  await (kind === "map" ? views.map : views.table).open(pipeline, task);
}

async function start() {
  if (!list.length) await known();
  const link = location.pathname.match(/^\/t\/([^/]+)$/);
  if (link) {
    try {
      const task = await api.task(decodeURIComponent(link[1]));
      await open(task.request.pipeline, task);
      return;
    } catch (error) {
      history.replaceState(null, "", "/");
      await open(first());
      notice(`The result of this link is not there: ${error.message}`);
      return;
    }
  }
  const wanted = location.hash.slice(1);
  await open(list.some((one) => one.name === wanted) ? wanted : first());
}

/** The first pipeline that works. */
const first = () => (list.find((one) => !one.fault) ?? list[0]).name;

const guarded = (work) => work().catch((error) => notice(error.message));

byId("notice").querySelector("button").addEventListener("click", () => notice(""));
byId("pipelines").addEventListener("click", (event) => {
  const name = event.target.closest("a")?.hash.slice(1);
  if (!name || !list.some((one) => one.name === name)) return;
  event.preventDefault();
  history.pushState(null, "", `/#${name}`);
  guarded(() => open(name));
});
addEventListener("popstate", () => guarded(start));
guarded(start);
