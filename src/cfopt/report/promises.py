"""What was asked of an answer beside the question itself, in sentences that a dispatcher reads.

Each function takes an explanation of a single row.
"""

from __future__ import annotations

from cfopt.names import counted
from cfopt.report.changes import Move
from cfopt.result.explanation import Explanation
from cfopt.result.status import Status


def promises(e: Explanation, moves: list[Move]) -> list[str]:
    """How few changes there are, and what the answer stands up to; none of what was not asked."""
    if not e.status[0].is_valid:
        return []
    return [*_few(e, moves), *_robust(e)]


def _few(e: Explanation, moves: list[Move]) -> list[str]:
    most = e.features.max_changes
    if most is None or e.status[0] is Status.ALREADY_VALID:
        return []
    return [f"No more than {counted(most, 'feature')} may change, and {len(moves)} of them do."]


def _robust(e: Explanation) -> list[str]:
    robust = e.asked.robust
    if robust is None:
        return []
    proved = "" if _proved(e) else " That was searched for exceptions, which is no proof."
    return [f"It stays right if things turn out a little otherwise: {robust.words}.{proved}"]


def _proved(e: Explanation) -> bool:
    """Whether an answer was proved to be robust: its message says where it was only searched."""
    return "no proof" not in e.message[0]
