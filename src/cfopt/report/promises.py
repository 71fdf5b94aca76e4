"""What was asked of an answer beside the question itself, in sentences that a dispatcher reads.

Each function takes an explanation of a single row.
"""

from __future__ import annotations

from cfopt.names import counted
from cfopt.report.changes import Move
from cfopt.result.explanation import Explanation
from cfopt.result.status import Status
from cfopt.result.wording import radius_words


def promises(e: Explanation, moves: list[Move]) -> list[str]:
    """How few changes there are, what the answer stands up to, and how far it may be off."""
    if not e.status[0].is_answer:
        return []
    return [*_few(e, moves), *_robust(e), *room(e)]


def _few(e: Explanation, moves: list[Move]) -> list[str]:
    most = e.features.max_changes
    if most is None or e.status[0] is Status.ALREADY_VALID:
        return []
    return [f"No more than {counted(most, 'feature')} may change, and {len(moves)} of them do."]


def _robust(e: Explanation) -> list[str]:
    robust = e.asked.robust
    if robust is None:
        return []
    if e.status[0] is Status.SAMPLED:
        return [f"It was right wherever it was tried {robust.words}, which does not prove it."]
    return [f"It stays right if things turn out a little otherwise: {robust.words}."]


def room(e: Explanation) -> list[str]:
    """How far the context may be off, where that was measured; nothing of answers on a boundary."""
    if e.radii is None:
        return []
    words = radius_words(float(e.radius[0]), e.radius_kind[0])
    return [words] if words else []
