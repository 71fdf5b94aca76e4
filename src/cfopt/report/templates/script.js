"use strict";
(() => {
  const root = document.documentElement;
  const list = document.getElementById("list");
  const words = document.getElementById("words");
  const tasks = [...list.children];
  const ranks = ["valid", "already-valid", "sampled", "best-effort", "proved-infeasible", "rejected"];
  const ratings = ["typical", "plausible", "unusual"];
  root.classList.add("scripted");

  const cell = (task, name) => task.querySelector(`summary .${name}`)?.textContent ?? "";
  // null is unknown and comes last in either direction.
  const known = (text) => (text === "" ? null : Number(text));
  const keys = {
    number: (task) => Number(task.dataset.number),
    rank: (task) => ranks.indexOf(task.dataset.status),
    distance: (task) => known(task.dataset.distance),
    asked: (task) => cell(task, "asked") || null,
    decided: (task) => cell(task, "decided") || null,
    largest: (task) => known(task.dataset.largest),
    rating: (task) => (cell(task, "rating") ? ratings.indexOf(cell(task, "rating")) : null),
  };
  const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);

  const heads = [...document.querySelectorAll("[data-sort]")];
  const sort = (head) => {
    const again = head.getAttribute("aria-pressed") === "true";
    const down = again && head.dataset.direction !== "down";
    for (const other of heads) {
      other.setAttribute("aria-pressed", String(other === head));
      other.removeAttribute("data-direction");
      other.removeAttribute("aria-label");
    }
    head.dataset.direction = down ? "down" : "up";
    head.setAttribute("aria-label", `${head.textContent}, ${down ? "descending" : "ascending"}`);
    const key = keys[head.dataset.sort];
    const rows = tasks.map((task) => [key(task), task]);
    rows.sort(([a, one], [b, other]) => {
      if (a === null || b === null) return (a === null) - (b === null) || keys.number(one) - keys.number(other);
      return (down ? -1 : 1) * compare(a, b) || keys.number(one) - keys.number(other);
    });
    list.append(...rows.map(([, task]) => task));
  };
  for (const head of heads) head.addEventListener("click", () => sort(head));

  // The body of a task is made when it is first opened.
  const dialog = document.getElementById("large");
  const enlarge = (picture) => {
    dialog.querySelector("svg")?.remove();
    dialog.append(picture.cloneNode(true));
    dialog.showModal();
  };
  const fill = (task) => {
    const kept = task.querySelector("noscript");
    if (!kept) return;
    const body = new DOMParser().parseFromString(kept.textContent, "text/html").querySelector(".body");
    kept.replaceWith(document.importNode(body, true));
    for (const figure of task.querySelectorAll(".pictures figure")) {
      const picture = figure.querySelector("svg");
      const button = document.createElement("button");
      button.type = "button";
      button.className = "zoom";
      button.setAttribute("aria-label", `Enlarge: ${figure.querySelector("figcaption").textContent}`);
      picture.replaceWith(button);
      button.append(picture);
      button.addEventListener("click", () => enlarge(picture));
    }
  };
  const open = (task, yes = true) => {
    if (yes) fill(task);
    task.open = yes;
  };
  for (const task of tasks) task.addEventListener("toggle", () => task.open && fill(task));

  const chips = [...document.querySelectorAll("[data-status].chip")];
  // The words of a task, also of one that was never opened: its body is then still text.
  const texts = new Map();
  const text = (task) => {
    if (!texts.has(task)) {
      const said = (task.querySelector("noscript")?.textContent ?? task.querySelector(".body")?.textContent ?? "");
      const shown = task.querySelector("summary").textContent;
      texts.set(task, `${shown} ${said.replace(/<svg[^]*?<\/svg>|<[^>]*>/g, " ")}`.toLowerCase());
    }
    return texts.get(task);
  };
  const filter = () => {
    const wanted = new Set(chips.filter((chip) => chip.getAttribute("aria-pressed") === "true").map((chip) => chip.dataset.status));
    const sought = words.value.trim().toLowerCase();
    let shown = 0;
    for (const task of tasks) {
      const fits = (!wanted.size || wanted.has(task.dataset.status)) && (!sought || text(task).includes(sought));
      task.hidden = !fits;
      shown += fits;
    }
    const total = tasks.length.toLocaleString("en");
    const noun = tasks.length === 1 ? "task" : "tasks";
    document.getElementById("count").textContent =
      shown === tasks.length ? `${total} ${noun}` : `${shown.toLocaleString("en")} of ${total} ${noun}`;
    document.getElementById("nothing").hidden = shown > 0;
  };
  for (const chip of chips) {
    chip.addEventListener("click", () => {
      chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
      filter();
    });
  }
  words.addEventListener("input", filter);

  const setOpen = (yes) => {
    for (const task of tasks) if (!task.hidden) open(task, yes);
  };
  document.getElementById("open-all").addEventListener("click", () => setOpen(true));
  document.getElementById("close-all").addEventListener("click", () => setOpen(false));

  const follow = () => {
    const task = document.getElementById(location.hash.slice(1));
    if (task?.matches(".task")) {
      task.hidden = false;
      open(task);
      task.scrollIntoView();
    }
  };
  addEventListener("hashchange", follow);
  follow();
  if (tasks.length === 1) open(tasks[0]);

  // Paper has no buttons: a few tasks are printed open, then as they were. Of many the lines are
  // printed, and in full only those that a reader has opened.
  const FEW = 25;
  let closed = [];
  addEventListener("beforeprint", () => {
    const shown = tasks.filter((task) => !task.hidden);
    closed = shown.length <= FEW ? shown.filter((task) => !task.open) : [];
    for (const task of closed) open(task);
  });
  addEventListener("afterprint", () => {
    for (const task of closed) task.open = false;
  });
})();
