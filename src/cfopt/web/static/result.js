// An answer on the page: the verdict, pictures before and after, what changed, what is proved.

import * as api from "./api.js";
import { announce, byId, el, small } from "./dom.js";
import { NAMES, hopeless, picturesOf } from "./pictures.js";
import { capital, counted, duration, number, percent, signed } from "./words.js";

const OLD = "You have changed something since: this is the answer to what you asked before.";

const head = (words) => el("th", { scope: "col" }, words);
const unseen = (words) => el("span", { class: "unseen" }, words);

/**
 * Show the answer of one task, or of two beside each other (plausible, then naive).
 * @param tasks done, with results
 * @param pipeline as the server describes it
 * @param on {again(task) to continue from its answer, naive(), offer {said, words, act()}}, each or null
 */
export function showResult(tasks, pipeline, on) {
  const host = byId("result");
  const { result } = tasks[0];
  const both = tasks.length > 1;
  const conditions = [
    picturesOf(tasks, pipeline),
    statement(result, pipeline, both ? versus(tasks) : null),
    otherWays(result),
    both ? null : facts(result),
    ...tasks.map((task, k) => notes(task.result, both ? NAMES[k] : "")),
  ].filter(Boolean);
  const prices = inPrices(result);
  const parts = [
    opening(result),
    offer(on.offer),
    prices && levels(conditions, prices),
    ...conditions,
    prices,
    actions(tasks, on),
  ];
  host.className = `result ${result.status.replaceAll(" ", "-")}`;
  host.replaceChildren(...parts.filter(Boolean));
  host.hidden = false;
  byId("result-title").focus({ preventScroll: true });
  host.scrollIntoView({ block: "start" });
  announce(`${capital(result.status)}. ${result.verdict}`);
}

/** The answer that is shown, in words; "" if there is none. */
export function shownVerdict() {
  const parts = byId("result").querySelector(".answer")?.childNodes ?? [];
  const said = [...parts].filter((part) => !part.classList?.contains("pill")).map((part) => part.textContent);
  return byId("result").hidden ? "" : said.join("").trim();
}

/** Mark an answer to something else than what is open now, or take the mark away. */
export function ageResult(old) {
  const host = byId("result");
  const mark = host.querySelector(".old");
  if (!old) mark?.remove();
  else if (!mark) host.prepend(el("p", { class: "old" }, OLD));
}

/** Take the answer away; whether there was one. */
export function hideResult() {
  const { hidden } = byId("result");
  byId("result").hidden = true;
  return !hidden;
}

/** Show the answer that was taken away. */
export function showAgain() {
  byId("result").hidden = false;
}

function opening({ question, status, verdict, optimal, valid }) {
  const verdictWords = el("b", {}, el("i", { class: "mark" }), `${capital(status)}. `);
  const closest = optimal && valid ? el("em", { class: "pill" }, "closest possible") : null;
  return el(
    "header",
    {},
    el("h2", { id: "result-title", tabindex: "-1" }, question),
    el("p", { class: "answer" }, verdictWords, verdict, " ", closest),
  );
}

/** What can be done about an answer that there is none. */
function offer(offered) {
  if (!offered) return null;
  const { said, words, act } = offered;
  return el("div", { class: "offer" }, el("p", {}, said), el("button", { type: "button", onclick: act }, words));
}

function statement(result, pipeline, beside) {
  const whose = beside && el("h3", {}, "The plausible answer");
  return el("div", { class: "statement" }, whose, el("div", {}, compared(result, pipeline), beside), changes(result, !beside));
}

/** The decisions of the pictures, and what they cost. */
function compared({ compared: rows }, pipeline) {
  if (!rows.length) return null;
  const after = rows.some((one) => one.after);
  const value = pipeline.sense === "max" ? "Worth" : "Cost";
  const heads = [head(capital(pipeline.noun)), head(`${value} before`), after && head("after")];
  const lines = rows.map((one) => {
    const name = el("span", {}, one.what, el("b", {}, one.name));
    const first = el("th", { scope: "row" }, el("i", { class: `swatch ${one.role}` }), name);
    return el("tr", {}, first, el("td", {}, one.before), after && el("td", {}, one.after));
  });
  return el("table", { class: "compared" }, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, lines));
}

function changes({ changes: { title, words, rows, folded, more, since } }, spelled) {
  if (!words && !rows.length) return null;
  const smaller = folded.length + more;
  const rest = smaller > 0 && el(
    "details",
    { class: "smaller" },
    el("summary", {}, `and ${counted(smaller, "smaller change")}`),
    changeTable("", folded, since),
    more ? small(`… and ${more} still smaller`) : null,
  );
  return el(
    "div",
    {},
    spelled && words ? el("p", {}, words) : null,
    rows.length ? changeTable(title, rows, since) : null,
    rest,
  );
}

/** The same question in prices, as a card. */
function inPrices({ prices }) {
  if (!prices) return null;
  const { rows } = prices.changes;
  const table = rows.length ? changeTable("", rows) : null;
  return el("section", { class: "ways", "aria-label": "In prices" }, card(prices, table));
}

/** A switch between what the conditions would have had to be, shown first, and the prices. */
function levels(conditions, prices) {
  const show = (level) => {
    for (const part of conditions) part.hidden = level === "prices";
    prices.hidden = level !== "prices";
  };
  const choices = ["conditions", "prices"].map((value, k) => {
    const radio = { type: "radio", name: "level", value, checked: k === 0, onchange: () => show(value) };
    return el("label", {}, el("input", radio), el("span", {}, capital(value)));
  });
  show("conditions");
  const group = { class: "segments", role: "radiogroup", "aria-label": "What would have had to be otherwise" };
  return el("div", { class: "levels" }, el("div", group, choices));
}

/** Further options as cards. */
function otherWays({ options, distance, changes: first }) {
  const cards = options.map((way) => card(way, changeTable("", way.changes.rows)));
  if (options.length) {
    const words = first.rows.length ? "The answer above, the nearest." : "";
    cards.unshift(card({ name: "Option 1", said: words, distance }, changeTable("", first.rows)));
  }
  if (!cards.length) return null;
  return el("section", { class: "ways", "aria-label": "Other ways" }, cards);
}

function card({ name, said, distance, proof = [] }, table) {
  const far = typeof distance === "number" ? `${number(distance, 3)} away` : "";
  const proved = proof.length ? el("p", { class: "small" }, proof.join(" ")) : null;
  return el("article", { class: "way" }, el("h3", {}, name, " ", el("small", {}, far)), el("p", {}, said), table, proved);
}

function changeTable(title, rows, since = "before") {
  const lines = rows.map((row) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, row.name),
      el("td", {}, number(row.before)),
      el("td", {}, number(row.after)),
      el("td", { "--part": Math.abs(row.part).toFixed(2) }, typeof row.before === "string" ? "" : signed(row.change)),
    ),
  );
  const heads = [head(unseen("Name")), head(since), head("after"), head("change")];
  const caption = title ? el("caption", {}, title) : null;
  return el("table", { class: "changes" }, caption, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, lines));
}

/** What is measured of an answer: name, what it means, its value, and perhaps how it is measured. */
const MEASURES = [
  ["Distance", "how far the answer is from the context", (r) => number(r.distance, 3), (r) => r.measured],
  ["Regret before", "how much worse than the best the alternative is", (r) => percent(r.regret_before)],
  ["Regret after", "the same in the answer", (r) => (hopeless(r) ? "" : percent(r.regret_after))],
  ["Plausible", "how usual it is", (r) => r.rating ?? ""],
  ["Steps", "steps of the search", (r) => r.steps.toLocaleString("en")],
  ["Time", "time that the search took", (r) => duration(r.seconds)],
];

function facts(result) {
  const rows = MEASURES.map(([name, meaning, of, by]) => {
    const how = by?.(result);
    return [name, how ? `${meaning}, measured ${how}` : meaning, of(result)];
  }).filter(([, , value]) => value);
  return el(
    "dl",
    { class: "facts" },
    rows.map(([name, title, value]) => el("div", { title }, el("dt", {}, name), el("dd", {}, value))),
  );
}

/** Plausible against naive, measure by measure. */
function versus(tasks) {
  const line = (name, of) =>
    el("tr", {}, el("th", { scope: "row" }, name), tasks.map(({ result }) => el("td", {}, of(result) || "–")));
  return el(
    "table",
    { class: "versus" },
    el("caption", {}, "Plausible against naive"),
    el("thead", {}, el("tr", {}, head(unseen("Measure")), head("Plausible"), head("Naive"))),
    el("tbody", {}, line("Verdict", (r) => capital(r.status)), MEASURES.map(([name, , of]) => line(name, of))),
  );
}

function notes(result, whose) {
  const entries = [
    [hopeless(result) ? "Why it is impossible" : "What is proved", result.proof.join(" ")],
    ["How plausible it is", result.plausibility.join(" ")],
    ["How it was found", result.effort],
  ].filter(([, words]) => words);
  if (!entries.length) return null;
  const list = el("dl", {}, entries.map(([name, words]) => [el("dt", {}, name), el("dd", {}, words)]));
  return el("div", { class: "notes" }, whose && el("h3", {}, `The ${whose.toLowerCase()} answer`), list);
}

function actions(tasks, on) {
  const both = tasks.length > 1;
  const button = (words, onclick, kind = null) => el("button", { type: "button", class: kind, onclick }, words);
  const copy = button("Copy link", async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Copy it from the address bar";
    }
    announce(copy.textContent);
  });
  // The server names the file.
  const save = ({ id }, k) => ["json", "png"].map((ending) => {
    const words = `${both ? `${NAMES[k]} ` : ""}${ending.toUpperCase()}`;
    return el("a", { class: "button", href: api.download(id, ending), download: true }, words);
  });
  const onward = both ? "Continue from the plausible answer" : "Continue from this answer";
  const goes = on.again && !hopeless(tasks[0].result);
  return el(
    "div",
    { class: "actions" },
    goes ? button(onward, () => on.again(tasks[0]), "primary") : null,
    on.naive && !both ? button("Compare with the naive answer", on.naive) : null,
    copy,
    tasks.map(save),
  );
}
