// The page from its address: which pipeline, or which result of a link.

import { ofState, push, replace, wanted } from "./address.js";
import * as api from "./api.js";
import { announce, byId, el, guarded, notice } from "./dom.js";
import { Guide } from "./guide.js";
import { Maps } from "./maps.js";
import { hideResult } from "./result.js";
import { Tables } from "./tables.js";

const RETRY = 300;

const views = { map: new Maps(), table: new Tables() };
let list = [];
const guide = new Guide();
let shown = null; // the view of the pipeline that is open
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

/** Show a pipeline: at the tasks of a link, or at what an address says is open in it. */
async function open(name, found = {}) {
  const turn = ++opening;
  choose(name);
  for (const view of Object.values(views)) view.leave();
  guide.stop();
  hideResult();
  notice("");
  const { kind, fault, title } = list.find((one) => one.name === name);
  if (fault) {
    head(title, "");
    show(null);
    throw new Error(`This pipeline could not be loaded: ${fault}`);
  }
  try {
    const pipeline = await api.pipeline(name);
    if (turn !== opening) return;
    head(`Why this ${pipeline.noun}, and not yours?`, pipeline.about, title);
    show(kind === "map" ? "map" : "table");
    announce(title);
    shown = views[kind === "map" ? "map" : "table"];
    await shown.open(pipeline, { tasks: [], state: {}, ...found });
  } catch (error) {
    if (turn !== opening) return;
    // What is shown would be of another pipeline.
    head(title, "");
    show(null);
    throw error;
  }
}

/** Mark a pipeline among all, where it can be seen. */
function choose(name) {
  const link = (one) => {
    const current = one.name === name ? "page" : null;
    return el("a", { href: ofState(one.name), "aria-current": current }, one.title);
  };
  byId("pipelines").replaceChildren(...list.map((one) => el("li", {}, link(one))));
  const [nav, chosen] = [byId("nav"), byId("pipelines").querySelector("[aria-current]")];
  nav.scrollLeft = chosen.offsetLeft - nav.offsetLeft - (nav.clientWidth - chosen.offsetWidth) / 2;
}

function head(title, about, name = title) {
  document.title = `${name} · cfopt explorer`;
  byId("title").textContent = title;
  byId("about").textContent = about;
}

function show(view) {
  for (const one of Object.keys(views)) byId(`${one}-view`).hidden = one !== view;
}

async function start() {
  if (!list.length) await known();
  const { pipeline, state, tasks } = wanted();
  const there = list.some((one) => one.name === pipeline);
  if (!tasks.length) {
    await (there ? open(pipeline, { state }) : open(first()));
    return;
  }
  let found;
  try {
    found = [await api.task(tasks[0])];
  } catch (error) {
    if (error.passing) throw error;
    replace(there ? ofState(pipeline, state) : "/");
    await (there ? open(pipeline, { state, asks: true }) : open(first()));
    if (!there) notice(`The result of this link is no longer available: ${error.message}`);
    return;
  }
  // Without the naive answer the other one is still worth showing.
  if (tasks[1]) await api.task(tasks[1]).then((naive) => found.push(naive), () => {});
  await open(found[0].request.pipeline, { tasks: found });
}

/** The first pipeline that works. */
const first = () => (list.find((one) => !one.fault) ?? list[0]).name;

byId("tour").addEventListener("click", () => guarded(async () => shown && guide.play(await shown.example())));
byId("dismiss").addEventListener("click", () => notice(""));
byId("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address says what is shown
  byId("main").focus();
});
byId("pipelines").addEventListener("click", (event) => {
  const name = event.target.closest("a")?.hash.slice(1);
  if (!name || !list.some((one) => one.name === name)) return;
  event.preventDefault();
  push(ofState(name));
  guarded(() => open(name));
});
// Fields of text have an undo of their own.
addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.shiftKey || event.key.toLowerCase() !== "z") return;
  if (event.target.matches?.("input[type=number], input[type=search], textarea")) return;
  event.preventDefault();
  shown?.undo();
});
// The token of a server that asks for one is a cookie by now.
if (new URLSearchParams(location.search).has("token")) replace(location.pathname + location.hash);
addEventListener("popstate", () => guarded(start));
guarded(start);
