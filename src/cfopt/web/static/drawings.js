// Decisions of tables: which drawing fits the scene of a pipeline.

import { ColumnsDrawing } from "./columns.js";
import { ItemsDrawing } from "./items.js";
import { NetworkDrawing } from "./network.js";

/** Whether two decisions are the same. */
export const equal = (a, b) => Boolean(a && b) && a.every((value, k) => Math.abs(value - b[k]) < 1e-6);

/** The drawing that fits a pipeline; on: {wanted(decision or null), place(name)}. */
export function drawingOf(host, list, pipeline, on) {
  const { scene } = pipeline;
  const kind = scene?.kind;
  host.className = `drawing ${kind ?? "bars"}`;
  host.replaceChildren();
  list.replaceChildren();
  if (kind === "network" && scene.start !== null) return new NetworkDrawing(host, scene, on);
  if (kind === "items") return new ItemsDrawing(host, scene, on);
  return new ColumnsDrawing(host, list, pipeline, on);
}
