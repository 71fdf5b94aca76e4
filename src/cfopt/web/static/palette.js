// The terrains that can be painted: a tile of each to choose, and to stamp on cells.

import { el } from "./dom.js";
import { capital, number } from "./words.js";

export class Palette {
  #tiles = new Map();

  /**
   * @param host the element to fill
   * @param terrains {name, tile, cost}
   * @param reset called to take all painting back
   */
  constructor(host, terrains, reset) {
    this.host = host;
    host.replaceChildren(
      ...terrains.map((terrain, k) => this.#choice(terrain, k === 0)),
      el("button", { type: "button", onclick: reset }, "Reset"),
    );
    for (const { name, tile } of terrains) {
      const image = new Image();
      image.src = tile;
      this.#tiles.set(name, image);
    }
  }

  /** Wait until all tiles can be stamped. */
  async ready() {
    await Promise.all([...this.#tiles.values()].map((image) => image.decode()));
  }

  /** The number of the terrain that is chosen. */
  get chosen() {
    return [...this.#tiles.keys()].indexOf(this.host.querySelector("input:checked").value);
  }

  /** The tile of a terrain by its number; undefined if there is none. */
  tile(terrain) {
    return [...this.#tiles.values()][terrain];
  }

  #choice({ name, tile, cost }, checked) {
    return el(
      "label",
      { class: "terrain" },
      el("input", { type: "radio", name: "terrain", value: name, checked }),
      el("img", { src: tile, alt: "", width: 28, height: 28 }),
      el("span", {}, capital(name), el("small", {}, `≈ ${number(cost, 2)}`)),
    );
  }
}
