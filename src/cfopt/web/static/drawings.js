// Decisions of tables: which drawing fits a pipeline, and the pictures of an answer.

import { ColumnsDrawing } from "./columns.js";
import { el } from "./dom.js";
import { GridDrawing, gridPicture } from "./grid.js";
import { ItemsDrawing, itemRows } from "./items.js";

/** Whether two decisions are the same. */
export const equal = (a, b) => Boolean(a && b) && a.every((value, k) => Math.abs(value - b[k]) < 1e-6);

/** The drawing that fits a pipeline; on: {wanted(decision or null), place(name)}. */
export function drawingOf(host, list, pipeline, on) {
  const kind = pipeline.layout?.kind;
  host.className = `drawing ${kind ?? "plain"}`;
  host.replaceChildren();
  list.replaceChildren();
  if (kind === "grid") return new GridDrawing(host, pipeline.layout, on);
  if (kind === "items") return new ItemsDrawing(host, pipeline, on);
  return new ColumnsDrawing(host, list, pipeline, on);
}

/** Pictures of an answer: {title, picture, caption} before and after. */
export function bothDrawings(result, pipeline) {
  const sides = sidesOf(result);
  if (pipeline.layout.kind === "grid") {
    const all = sides.flatMap(({ side }) => side.costs);
    const range = [Math.min(...all), Math.max(...all)];
    return sides.map(({ title, side, lines }) => {
      const caption = captionOf(lines, "Thick");
      const picture = gridPicture(pipeline.layout, side.costs, lines, `${title}. ${caption}`, range);
      return { title, picture, caption };
    });
  }
  return sides.map(({ title, side, lines }) => ({
    title,
    picture: el("ul", { class: "items" }, itemRows(pipeline.decision_names, side.costs, lines[0], lines[1])),
    caption: `${captionOf(lines.slice(0, 2), "Filled")} Bars and numbers: what each item is worth.`,
  }));
}

/** What is drawn before and after: {title, side, lines}, the thick line first. */
function sidesOf(result) {
  const { before, factual_decision: factual, asked_decision: asked } = result;
  const after = result.status === "proved infeasible" ? null : result.after;
  const line = (decision, role, what, weight = "weak") => ({ decision, role, what, weight });
  const decided = line(factual, "factual", "decided");
  // Where nothing was asked for but a change, what is best after it is shown in its place.
  const contrasts = !equal(asked, factual);
  const other = contrasts ? line(asked, "other", "asked for") : line(after?.decision, "other", "best there");
  const thick = (one) => ({ ...one, weight: "strong" });
  const sides = [{ title: "Before", side: before, lines: [thick(decided), ...(contrasts ? [other] : [])] }];
  if (!after) return sides;
  const moved = other.decision && !equal(other.decision, factual);
  const lines = moved ? [thick(other), decided] : [thick(decided)];
  if (contrasts && !equal(after.decision, asked) && !equal(after.decision, factual)) {
    const third = result.compared.find(({ role }) => role === "third");
    lines.push(line(after.decision, "third", third?.what.toLowerCase() ?? "chosen there"));
  }
  return [...sides, { title: "After", side: after, lines }];
}

function captionOf([strong, ...weak], thick) {
  const dashed = weak.length ? `; dashed: ${weak.map(({ what }) => what).join(", and ")}` : "";
  return `${thick}: ${strong.what}${dashed}.`;
}
