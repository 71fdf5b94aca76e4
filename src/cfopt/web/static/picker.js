// Test maps to choose from, all in one picture that the server sends.

import * as api from "./api.js";
import { el } from "./dom.js";

const THUMBNAILS = 48;
const SPRITE = 12; // thumbnails beside each other in the picture that holds them all
const LISTED = 200; // maps in a list by name

/** Small pictures of maps; `chosen` gets the number of the one that is picked. */
export function fillThumbnails(host, { name, contexts, labels }, chosen) {
  const count = Math.min(contexts, THUMBNAILS);
  const rows = Math.ceil(count / SPRITE);
  const thumb = (k) => {
    const called = labels[k] ?? `map ${k}`;
    const place = {
      "--x": `${(100 * (k % SPRITE)) / (SPRITE - 1)}%`,
      "--y": `${(100 * Math.floor(k / SPRITE)) / Math.max(1, rows - 1)}%`,
      "--rows": rows,
    };
    const radio = { type: "radio", name: "map", value: k, "aria-label": called, onchange: () => chosen(k) };
    return el("label", { class: "thumb", title: called, ...place }, el("input", radio), el("i", {}));
  };
  host.style.setProperty("--sprite", `url("${api.thumbnails(name)}")`);
  host.replaceChildren(...Array.from({ length: count }, (_, k) => thumb(k)));
}

/** A list of contexts by name; `first` stands for none. */
export function fillList(select, { contexts, labels }, noun, first = null) {
  const called = (k) => (/^\d*$/.test(labels[k] ?? "") ? `${noun} ${labels[k] || k}` : labels[k]);
  select.replaceChildren(
    ...(first ? [el("option", { value: "" }, first)] : []),
    ...Array.from({ length: Math.min(contexts, LISTED) }, (_, k) => el("option", { value: k }, called(k))),
  );
}
