"use strict";
(() => {
  const root = document.documentElement;
  const list = document.getElementById("list");
  const words = document.getElementById("words");
  const tasks = [...list.children];
  const ranks = ["valid", "already-valid", "best-effort", "proved-infeasible", "rejected"];
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

  const chips = [...document.querySelectorAll("[data-status].chip")];
  const texts = new Map();
  const text = (task) => {
    if (!texts.has(task)) {
      const parts = [...task.querySelectorAll("h3, .asked, .largest, .question, .answer, .changes th, .notes")];
      texts.set(task, parts.map((part) => part.textContent).join(" ").toLowerCase());
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

  const setOpen = (open) => {
    for (const task of tasks) if (!task.hidden) task.open = open;
  };
  document.getElementById("open-all").addEventListener("click", () => setOpen(true));
  document.getElementById("close-all").addEventListener("click", () => setOpen(false));

  const follow = () => {
    const task = document.getElementById(location.hash.slice(1));
    if (task?.matches(".task")) {
      task.hidden = false;
      task.open = true;
      task.scrollIntoView();
    }
  };
  addEventListener("hashchange", follow);
  follow();
  if (tasks.length === 1) tasks[0].open = true;

  // Paper has no buttons: all that is shown is printed open, then as it was.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = tasks.filter((task) => !task.open && !task.hidden);
    for (const task of closed) task.open = true;
  });
  addEventListener("afterprint", () => {
    for (const task of closed) task.open = false;
  });
})();
