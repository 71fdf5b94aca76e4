"""The claims of the paper, one by one: what it shows, what a study measured, whether it holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pandas as pd

from cfopt_paper.findings import Estimate, Findings


class Verdict(StrEnum):
    """Whether a claim holds in a study."""

    HOLDS = "holds"
    #: The difference is smaller than chance could make it, or something could not be measured.
    OPEN = "not decided"
    FAILS = "does not hold"


@dataclass(frozen=True)
class Claim:
    """One line of the table.

    Arguments:
        experiment: where it was measured.
        claim: what the paper says.
        paper: what its figure shows.
        measured: what the study found; intervals are of 95%, differences task by task.
        verdict: whether the claim holds here.
    """

    experiment: str
    claim: str
    paper: str
    measured: str
    verdict: Verdict


Check = Callable[[Findings], Iterator[Claim]]


def claims(folder: Path, checks: dict[str, Check]) -> list[Claim]:
    """Check the claims about the experiments that a folder holds.

    Arguments:
        folder: the folder of a study.
        checks: the checks by the name of the experiment that they are about.
    """
    found = ((check, Findings(folder, name)) for name, check in checks.items())
    return [claim for check, findings in found if findings.exist for claim in check(findings)]


def as_table(found: Iterable[Claim]) -> pd.DataFrame:
    """One row for each claim."""
    columns = ["experiment", "claim", "paper", "measured", "verdict"]
    rows = [[getattr(claim, column) for column in columns] for claim in found]
    return pd.DataFrame(rows, columns=columns)


def as_markdown(found: Iterable[Claim]) -> str:
    """The table for readers."""
    lines = ["| claim | the paper shows | measured here | verdict |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {c.claim} ([{c.experiment}]({c.experiment}.png)) | {c.paper} | {c.measured} "
        f"| **{c.verdict}** |"
        for c in found
    ]
    return "\n".join(lines) + "\n"


def listed(values: pd.Series[float], unit: str = "", form: str = ".3g") -> str:
    """The values of a curve, each with its setting in brackets.

    Arguments:
        values: the values, indexed by the setting.
        unit: the unit that follows each value.
        form: the format of a value.
    """
    return ", ".join(f"{value:{form}}{unit} ({setting:g})" for setting, value in values.items())


def below(change: Estimate) -> Verdict:
    """Whether a change is a decrease: the interval lies below 0, above it, or on both sides."""
    if change.high < 0:
        return Verdict.HOLDS
    return Verdict.FAILS if change.low > 0 else Verdict.OPEN


def deciding(change: Estimate) -> str:
    """What sample would decide on a change that this one leaves open, in words; "" if it is."""
    if below(change) is not Verdict.OPEN or math.isnan(change.deciding):
        return ""
    return f"; with this spread, {change.deciding:,.0f} tasks would decide, not {change.count}"


def decided(holds: bool, *measured: float) -> Verdict:
    """For claims that do not depend on chance; open where something measured is unknown (NaN)."""
    if any(math.isnan(value) for value in measured):
        return Verdict.OPEN
    return Verdict.HOLDS if holds else Verdict.FAILS
