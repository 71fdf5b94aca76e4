"""Questions to a page in JavaScript: can its text be read, do its controls have names?"""

from __future__ import annotations

#: How bright the paper is, from 0 to 255.
PAPER = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"

#: Texts whose contrast with what lies below them is under 4.5 to 1, the least that WCAG AA allows;
#: those of controls that cannot be used do not count.
FAINT = """
() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = colour => {
    const [r, g, b] = colour.map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const over = ([r, g, b, a = 1], below) => [r, g, b].map((v, k) => a * v + (1 - a) * below[k]);
  const ground = node => {
    if (!node) return [255, 255, 255];
    const colour = parts(getComputedStyle(node).backgroundColor);
    return colour[3] === 0 ? ground(node.parentElement) : over(colour, ground(node.parentElement));
  };
  const faint = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const words = texts.currentNode.textContent.trim();
    const node = texts.currentNode.parentElement;
    const skipped = node.closest('.unseen, .skip, svg, noscript, :disabled');
    if (!words || skipped || !node.checkVisibility()) continue;
    const below = ground(node);
    const colour = over(parts(getComputedStyle(node).color), below);
    const [more, less] = [light(colour), light(below)].sort((a, b) => b - a);
    if ((more + 0.05) / (less + 0.05) < 4.5) faint.push(words);
  }
  return faint;
}
"""

#: Controls that a screen reader could not name, and ids that are there twice.
NAMELESS = """
() => {
  const controls = 'button, a, input, select, summary, [tabindex="0"]';
  const named = node => node.labels?.length || node.ariaLabel || node.textContent.trim();
  const ids = [...document.querySelectorAll('[id]')].map(node => node.id);
  return [...document.querySelectorAll(controls)]
    .filter(node => node.checkVisibility() && !named(node)).map(node => node.outerHTML)
    .concat(ids.filter((id, k) => ids.indexOf(id) !== k));
}
"""
