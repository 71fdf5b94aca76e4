"""All checks of claims, and the file of their verdicts."""

from __future__ import annotations

from pathlib import Path

from cfopt.storage.files import write_whole
from cfopt_paper import map_claims, table_claims
from cfopt_paper.claims import Check, as_markdown, as_table, claims

CHECKS: dict[str, Check] = {**map_claims.CHECKS, **table_claims.CHECKS}


def write_claims(folder: Path) -> list[Path]:
    """Write claims.csv and claims.md about the experiments that a folder holds, if there are any.

    Arguments:
        folder: the folder of a study.
    """
    found = claims(folder, CHECKS)
    if not found:
        return []
    contents = {
        "claims.csv": as_table(found).to_csv(index=False),
        "claims.md": "# The paper's claims, one by one\n\n" + as_markdown(found),
    }
    for name, text in contents.items():
        write_whole(folder / name, text.encode())
    return [folder / name for name in contents]
