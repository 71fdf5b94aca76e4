"""The colours of every picture and page, by day and in the dark.

Decisions have Okabe and Ito's hues, which colour-blind readers can tell apart, in shades that are
legible as text on paper; thick and dashed lines, filled and outlined bars say the same without
colour. Costs are grey, the darker the dearer, so that decisions keep the colours to themselves.
"""

from __future__ import annotations

from importlib.resources import files

#: By day. Decisions go by their roles: decided, asked for, neither, and what is in the way.
LIGHT = {
    "paper": "#faf9f6",
    "card": "#ffffff",
    "tint": "#f3f1ec",
    "ink": "#23221f",
    "soft": "#66635c",
    "rule": "#e3e0d8",
    "edge": "#8d897f",
    "factual": "#0072b2",
    "other": "#c84f00",
    "third": "#23221f",
    "rival1": "#00835f",
    "rival2": "#a94a86",
    "valid": "#1f6f78",
    "already-valid": "#4f9aa3",
    "best-effort": "#a86a00",
    "proved-infeasible": "#7a4a8c",
    "rejected": "#77736b",
    "c0": "#f1efea",
    "c1": "#dcd9d2",
    "c2": "#c4c0b7",
    "c3": "#a9a49a",
    "c4": "#8a857b",
    "c5": "#68635a",
    "bar": "#8aa3a6",
    "accent": "#1f6f78",
    "on-accent": "#ffffff",
    "wash": "#e8f1f1",
    "warn": "#fbf0e6",
    "warn-rule": "#c84f00",
}
DARK = {
    "paper": "#151513",
    "card": "#1d1d1a",
    "tint": "#262622",
    "ink": "#ebe9e3",
    "soft": "#a5a198",
    "rule": "#35342f",
    "edge": "#7f7c73",
    "factual": "#5ab4ee",
    "other": "#f58b3f",
    "third": "#ffffff",
    "rival1": "#3fc79b",
    "rival2": "#e79ac6",
    "valid": "#6cc3cc",
    "already-valid": "#9ad5db",
    "best-effort": "#e6ad4a",
    "proved-infeasible": "#c79bd8",
    "rejected": "#9b978e",
    "c0": "#2a2a26",
    "c1": "#3a3934",
    "c2": "#4c4b45",
    "c3": "#636159",
    "c4": "#7f7c73",
    "c5": "#a09c91",
    "bar": "#5f7b7f",
    "accent": "#6cc3cc",
    "on-accent": "#10201f",
    "wash": "#1c2b2c",
    "warn": "#2d2118",
    "warn-rule": "#f58b3f",
}
#: What the lines of a picture can be.
ROLES = ("factual", "other", "third", "rival1", "rival2")
#: Shades of cost, the cheapest first.
SHADES = tuple(LIGHT[f"c{k}"] for k in range(6))
#: How far a pixel moved; unlike the decisions and the terrain.
CHANGE = "#8e0152"


def css() -> str:
    """The colours as custom properties, and the rules by which pictures are drawn with them.

    `--day-factual` and its like do not change in the dark, for lines on maps, which do not either.
    """
    day = {f"day-{name}": LIGHT[name] for name in (*ROLES, "ink")} | {"change": CHANGE}
    rules = (files("cfopt.drawing") / "pictures.css").read_text(encoding="utf-8")
    return (
        f":root {{ {_properties(LIGHT | day)} color-scheme: light dark; }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_properties(DARK)} }} }}\n"
        f"{rules}"
    )


def _properties(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())
