// The pictures of an answer: maps side by side or under a slider, drawings of tables before and after.

import { MapComparison } from "./compare.js";
import { drawn, el, small } from "./dom.js";
import { capital } from "./words.js";

const VIEWS = [["pictures", "Pictures"], ["map", "Slider"], ["costs", "Costs"], ["change", "Changes"]];
const SIDES = ["before", "after"];
const CONTRAST = "Thick: decided before, asked for after. Dashed: the other one.";
const BEST = "Thick: best before and after. Dashed: what was decided.";
const PURPLE = "The more purple a pixel, the more it changed.";
const FRAMED = "Framed: the cells that are described.";
const SEEN = {
  pictures: "The last picture is the land of the answer; what changed is framed there, and described below.",
  map: "Drag the slider across the map: your land is on its left, the land of the answer on its right. What changed is described next to it.",
};

/** What two answers beside each other are called. */
export const NAMES = ["Plausible", "Naive"];

/** Whether it was proved that there is no answer. */
export const hopeless = (result) => result.status === "proved infeasible";

const contrasts = ({ alternative, uses, avoids }) => Boolean(alternative ?? uses ?? avoids);

/** The pictures of the answer of one task, or of two beside each other; null if there are none. */
export const picturesOf = (tasks, pipeline) =>
  pipeline.kind === "map" ? mapPictures(tasks, pipeline) : tablePictures(tasks, pipeline);

/** What is seen on the maps of the answer that is shown, in words; "" if there are none. */
export const seenOnMaps = () => SEEN[document.querySelector("#result [name=view]:checked")?.value] ?? "";

function mapPictures(tasks, pipeline) {
  const shown = tasks.filter(({ result }) => !hopeless(result));
  if (!shown.length) return null;
  const both = shown.length > 1;
  const names = shown.map((task) => (tasks.length > 1 ? `${NAMES[tasks.indexOf(task)]} answer` : "Answer"));
  const comparisons = shown.map(({ result }, k) => new MapComparison(result, pipeline.grid, names[k]));
  const third = comparisons.some((one) => one.third) ? ` Black: ${thirdOf(shown)}.` : "";
  const lines = (contrasts(tasks[0].request.question) ? CONTRAST : BEST) + third;
  const key = el("p", { class: "small key" }, lines);
  const pair = el("div", { class: both ? "pair two" : "pair" });
  const show = (view) => {
    for (const one of comparisons) one.view = view;
    pair.classList.toggle("apart", view === "pictures");
    key.textContent = { change: PURPLE, pictures: `${lines} ${FRAMED}` }[view] ?? lines;
  };
  const first = comparisons[0].view;
  show(first);
  const views = VIEWS.map(([value, words]) => {
    const radio = { type: "radio", name: "view", value, checked: value === first, onchange: () => show(value) };
    return el("label", {}, el("input", radio), el("span", {}, words));
  });
  const figures = comparisons.map((one, k) =>
    el("figure", {}, both && el("figcaption", {}, names[k]), one.host, both && small(one.result.changes.words)),
  );
  pair.replaceChildren(...figures);
  const group = { class: "segments", role: "radiogroup", "aria-label": "What the pictures show" };
  return el(
    "div",
    { class: "pictures" },
    el("div", { class: "bar" }, el("div", group, views)),
    pair,
    key,
  );
}

/** What the route is that was neither decided nor asked for. */
function thirdOf(tasks) {
  const rows = tasks.flatMap(({ result }) => result.compared);
  return rows.find(({ role }) => role === "third")?.what.toLowerCase() ?? "chosen there";
}

function tablePictures([{ result }, naive], pipeline) {
  const figures = figuresOf(result);
  if (naive) {
    const after = figuresOf(naive.result).filter(({ title }) => title === "After");
    figures.push(...after.map((figure) => ({ ...figure, title: "After, naive" })));
  }
  if (!figures.length) return null;
  const shown = figures.map(({ title, picture, caption }) =>
    el("figure", {}, el("figcaption", {}, title), picture, small(caption)),
  );
  const kind = pipeline.scene?.kind ?? "bars";
  return el("div", { class: "pictures" }, el("div", { class: `pair two of-${kind}` }, shown));
}

/** Images and drawings of an answer, before and after, or of what stands in its way. */
function figuresOf(result) {
  const image = (side) => el("img", { src: result[side].image, alt: `The image ${side}` });
  const seen = ["before", "redrawn", "after"].filter((side) => result[side]?.image);
  const images = seen.map((side) => ({
    title: side === "redrawn" ? "As the model redraws it" : capital(side),
    picture: image(side),
  }));
  const drawings = SIDES.map((side, k) => ({
    title: k && hopeless(result) ? "In its way" : capital(side),
    picture: drawn(result[side].drawing),
    caption: result.captions?.[k],
  }));
  return [...images, ...drawings.filter(({ picture }) => picture)];
}
