// An answer on the page: the verdict, pictures before and after, what changed, what is proved.

import * as api from "./api.js";
import { MapComparison } from "./compare.js";
import { announce, byId, drawn, el } from "./dom.js";
import { bothDrawings, cropped } from "./drawings.js";
import { capital, duration, number, percent, signed } from "./words.js";

/**
 * Show the answer of one task, or of two beside each other (plausible, then naive).
 * @param tasks done, with results
 * @param pipeline as the server describes it
 * @param on {again(side) go on from the answer, naive() or null}
 */
export function showResult(tasks, pipeline, on) {
  const host = byId("result");
  const [task] = tasks;
  const { result } = task;
  const slug = result.status.replaceAll(" ", "-");
  host.className = `result ${slug}`;
  const parts = [
    el("header", {},
      el("h2", { id: "result-title", tabindex: "-1" }, result.question),
      el("p", { class: "answer" }, el("b", {}, el("i", { class: "mark" }), `${capital(result.status)}. `), result.verdict, " ",
        result.optimal && result.valid ? el("em", { class: "pill" }, "closest there is") : null),
    ),
    pipeline.kind === "map" ? mapPictures(tasks, pipeline) : tablePictures(result, pipeline),
    told(result, pipeline, tasks.length > 1 ? numbers(tasks) : null),
    tasks.length > 1 ? null : numbers(tasks),
    notes(result),
    actions(task, tasks[1], result, on),
  ];
  host.replaceChildren(...parts.filter(Boolean));
  host.hidden = false;
  const title = byId("result-title");
  title.focus({ preventScroll: true });
  host.scrollIntoView({ block: "start" });
  announce(`${capital(result.status)}. ${result.verdict}`);
}

const hopeless = (result) => result.status === "proved infeasible";

export function hideResult() {
  byId("result").hidden = true;
}

function mapPictures(tasks, pipeline) {
  const shown = tasks.filter(({ result }) => result.after && !hopeless(result));
  if (!shown.length) return null;
  const names = tasks.length > 1 ? ["Plausible answer", "Naive answer"] : ["Answer"];
  const comparisons = shown.map(({ result }, k) => new MapComparison(result, pipeline.grid, names[k]));
  const contrasts = tasks[0].request.question.kind !== "epsilon";
  const lines = contrasts ? "Thick: decided before, asked for after. Dashed: the other one." : "Thick: best before and after. Dashed: what was decided.";
  const key = el("p", { class: "small key" }, lines);
  const views = [["map", "Map"], ["costs", "Costs"], ["change", "Changes"]];
  return el("div", { class: "pictures" },
    el("div", { class: "bar" },
      el("div", { class: "segments", role: "radiogroup", "aria-label": "What the pictures show" },
        views.map(([value, words], k) => el("label", {},
          el("input", { type: "radio", name: "view", value, checked: k === 0, onchange: () => {
            for (const one of comparisons) one.view = value;
            key.textContent = value === "change" ? "The more purple, the more a pixel changed." : lines;
          } }),
          el("span", {}, words)))),
    ),
    el("div", { class: `pair${shown.length > 1 ? " two" : ""}` },
      comparisons.map((one, k) => el("figure", {},
        shown.length > 1 ? el("figcaption", {}, names[k]) : null,
        one.host,
        shown.length > 1 ? el("p", { class: "small" }, one.result.changes.words) : null))),
    key,
  );
}

function tablePictures(result, pipeline) {
  const images = ["before", "after"].filter((side) => result[side]?.image).map((side) => [capital(side), el("img", { src: result[side].image, alt: `The image ${side}` }), ""]);
  const plain = () => ["before", "after"].filter((side) => result[side]?.drawing)
    .map((side, k) => [k && hopeless(result) ? "In its way" : capital(side), drawn(result[side].drawing), result.captions?.[k] ?? ""]);
  const figures = [...images, ...(pipeline.layout ? bothDrawings(result, pipeline) : plain())];
  // Where it was proved that there is no answer, the server draws what stands in the way.
  if (hopeless(result) && pipeline.layout && result.captions?.length > 1) figures.push(["In its way", cropped(drawn(result.after.drawing), pipeline.layout), result.captions[1]]);
  if (!figures.length) return null;
  return el("div", { class: "pictures" }, el("div", { class: `pair two of-${pipeline.layout?.kind ?? "columns"}` },
    figures.map(([title, picture, caption]) => el("figure", {}, el("figcaption", {}, title), picture, caption ? el("p", { class: "small" }, caption) : null))));
}

function told(result, pipeline, versus) {
  const value = pipeline.sense === "max" ? "Worth" : "Cost";
  const after = result.compared.some((one) => one.after);
  const compared = result.compared.length ? el("table", { class: "compared" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, capital(pipeline.noun)), el("th", { scope: "col" }, `${value} before`), after ? el("th", { scope: "col" }, "after") : null)),
    el("tbody", {}, result.compared.map((one) => el("tr", {},
      el("th", { scope: "row" }, el("i", { class: `swatch ${one.role}` }), el("span", {}, one.what, el("b", {}, one.name))),
      el("td", {}, one.before), after ? el("td", {}, one.after) : null)))) : null;
  const { title, words, rows, more } = result.changes;
  const changes = words || rows.length ? el("div", {},
    words && !versus ? el("p", {}, words) : null,
    rows.length ? el("table", { class: "changes" }, el("caption", {}, title),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, el("span", { class: "unseen" }, "Name")), el("th", { scope: "col" }, "before"), el("th", { scope: "col" }, "after"), el("th", { scope: "col" }, "change"))),
      el("tbody", {}, rows.map((row) => el("tr", {},
        el("th", { scope: "row" }, row.name), el("td", {}, number(row.before)), el("td", {}, number(row.after)),
        el("td", { "--part": Math.abs(row.part).toFixed(2) }, signed(row.change)))))) : null,
    more ? el("p", { class: "small" }, `… and ${more} smaller ${more === 1 ? "change" : "changes"}`) : null) : null;
  return el("div", { class: "told" }, el("div", {}, compared, versus), changes);
}

/** Regret, distance, steps: one column for each answer. */
function numbers(tasks) {
  const rows = [
    ["Distance", "how far the answer is from the context", (r) => number(r.distance, 3)],
    ["Regret before", "how much worse than the best what was asked for is", (r) => percent(r.regret_before)],
    ["Regret after", "the same in the answer", (r) => (hopeless(r) ? "" : percent(r.regret_after))],
    ["Plausible", "", (r) => r.rating || ""],
    ["Steps", "", (r) => (r.steps ?? "").toLocaleString("en")],
    ["Time", "", (r) => duration(r.seconds)],
  ].filter(([, , of]) => tasks.some(({ result }) => of(result) !== ""));
  if (tasks.length === 1) {
    return el("dl", { class: "facts" }, rows.map(([name, more, of]) => el("div", { title: more || null }, el("dt", {}, name), el("dd", {}, of(tasks[0].result)))));
  }
  return el("table", { class: "versus" },
    el("caption", { class: "unseen" }, "Plausible against naive"),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, el("span", { class: "unseen" }, "Measure")), el("th", { scope: "col" }, "Plausible"), el("th", { scope: "col" }, "Naive"))),
    el("tbody", {},
      el("tr", {}, el("th", { scope: "row" }, "Verdict"), tasks.map(({ result }) => el("td", {}, capital(result.status)))),
      rows.map(([name, , of]) => el("tr", {}, el("th", { scope: "row" }, name), tasks.map(({ result }) => el("td", {}, of(result) || "–"))))));
}

function notes(result) {
  const entries = [
    [result.status === "proved infeasible" ? "Why it is impossible" : "What is proved", result.proof],
    ["How plausible it is", result.plausibility],
    ["How it was found", result.effort],
  ].map(([name, words]) => [name, Array.isArray(words) ? words.join(" ") : words]).filter(([, words]) => words);
  if (!entries.length) return null;
  return el("dl", { class: "notes" }, entries.map(([name, words]) => [el("dt", {}, name), el("dd", {}, words)]));
}

function actions(task, naive, result, on) {
  const link = new URL(`/t/${task.id}${naive ? `#naive=${naive.id}` : ""}`, location.href).href;
  const copy = el("button", { type: "button", onclick: async () => {
    try {
      await navigator.clipboard.writeText(link);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Copy it from the address line";
    }
    announce(copy.textContent);
  } }, "Copy link");
  history.replaceState(null, "", link);
  return el("div", { class: "actions" },
    result.after && on.again && !hopeless(result) ? el("button", { type: "button", class: "primary", onclick: () => on.again(result.after) }, "Go on from this answer") : null,
    on.naive && !naive ? el("button", { type: "button", onclick: on.naive }, "Compare with the naive answer") : null,
    copy,
    el("a", { class: "button", href: api.download(task.id, "json"), download: `cfopt-${task.id}.json` }, "JSON"),
    el("a", { class: "button", href: api.download(task.id, "png"), download: `cfopt-${task.id}.png` }, "PNG"),
  );
}
