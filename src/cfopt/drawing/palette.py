"""The colours of every picture and page, by day and in the dark.

Decisions have Okabe and Ito's hues, which colour-blind readers can distinguish, in shades that are
legible as text on paper; thick and dashed lines, filled and outlined bars say the same without
colour. Costs are grey, darker where higher, so that decisions keep the colours to themselves.
"""

from __future__ import annotations

from importlib.resources import files

#: Names, colours by day and in the dark. Decisions go by their roles: decided, asked for, neither,
#: and what is in the way.
_COLOURS = """
paper #faf9f6 #151513  card #ffffff #1d1d1a  tint #f3f1ec #262622  ink #23221f #ebe9e3
soft #66635c #a5a198  rule #e3e0d8 #35342f  edge #8d897f #7f7c73  bar #8aa3a6 #5f7b7f
factual #0072b2 #5ab4ee  other #c84f00 #f58b3f  third #23221f #ffffff
rival1 #00835f #3fc79b  rival2 #a94a86 #e79ac6
valid #1f6f78 #6cc3cc  already-valid #4f9aa3 #9ad5db  sampled #6b7f2a #b9cd72
best-effort #a86a00 #e6ad4a  proved-infeasible #7a4a8c #c79bd8  rejected #77736b #9b978e
c0 #f1efea #2a2a26  c1 #dcd9d2 #3a3934  c2 #c4c0b7 #4c4b45
c3 #a9a49a #636159  c4 #8a857b #7f7c73  c5 #68635a #a09c91
accent #1f6f78 #6cc3cc  on-accent #ffffff #10201f  wash #e8f1f1 #1c2b2c
warn #fbf0e6 #2d2118  warn-rule #c84f00 #f58b3f
"""
_NAMES, _DAY, _NIGHT = (_COLOURS.split()[k::3] for k in range(3))
LIGHT = dict(zip(_NAMES, _DAY, strict=True))
DARK = dict(zip(_NAMES, _NIGHT, strict=True))
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
