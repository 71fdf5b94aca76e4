"""Every row of a table as work: its contexts, and a criterion for all or for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import torch

import cfopt
from cfopt.errors import InputError
from cfopt.fleet.fingerprint import fingerprint, question_settings
from cfopt.fleet.finished import versions
from cfopt.fleet.source import ContextSource
from cfopt.fleet.work import Asked, Work
from cfopt.question import Criterion, Question
from cfopt.storage.digests import digest_json
from cfopt.storage.watched import Watched

#: What is asked of rows: a criterion, or what a function makes of some rows of the table.
Asking: TypeAlias = Criterion | Callable[[Any], Criterion]


class DatasetWork(Work):
    """Every row of a table, with a criterion for all or for each.

    Arguments:
        source: the rows as contexts.
        criterion: what is asked, of all rows or as a function of some.
        common: everything else that is asked, of all rows.
        data: the rows as the caller gave them.
        files: where they come from, if from files: "table".
        batch, part, title: as for `Work`.
    """

    def __init__(
        self,
        source: ContextSource,
        criterion: Asking,
        common: dict[str, Any],
        data: Any,
        files: Watched,
        batch: int | None,
        part: int | None,
        title: str,
    ) -> None:
        self._source, self._criterion, self._common = source, criterion, common
        super().__init__(
            source.pipeline,
            self._settings(data, files),
            files=files,
            batch=batch,
            part=part,
            title=title or "Answers",
        )
        files.check()
        if isinstance(criterion, Criterion):
            counts = _counts(criterion)
            if counts - {1, len(self)}:
                raise InputError(
                    f"{type(criterion).__name__} needs one alternative for all rows or one for "
                    f"each of the {len(self)}; got {max(counts)}."
                )
        _ = self.first

    def __len__(self) -> int:
        return len(self._source)

    def read(self, rows: range) -> Asked:
        """Some rows, and what is asked of them."""
        contexts = self._source.read(rows)
        question = Question(self._asked(rows), **self._common)
        return Asked(contexts, replace(question, features=contexts.features))

    def _asked(self, rows: range) -> Criterion:
        if not isinstance(self._criterion, Criterion):
            return self._criterion(self._source.rows.read(rows))
        counts = _counts(self._criterion)
        if not counts:
            return self._criterion
        shared = counts == {1}
        return self._criterion[
            torch.zeros(len(rows), dtype=torch.long)
            if shared
            else torch.arange(rows.start, rows.stop)
        ]

    def _settings(self, data: Any, files: Watched) -> dict[str, Any]:
        criterion, pipeline = self._criterion, self._source.pipeline
        pipeline.problem.renew()
        digest = files.digests["table"] if files.files else str(fingerprint("table", data))
        asked: Any = fingerprint("criterion", criterion)
        if isinstance(criterion, Criterion):
            values = criterion.row_values()
            asked = {
                "kind": digest_json(criterion.to_dict()),
                **{name: fingerprint("criterion", one) for name, one in values.items()},
            }
        return {
            "cfopt": cfopt.__version__,
            "versions": versions(),
            "table": digest,
            "label": self._source.label,
            "predictor": fingerprint("predictor", pipeline.predictor),
            "problem": fingerprint("problem", pipeline.problem),
            "criterion": asked,
            **question_settings(Question(None, **self._common)),  # type: ignore[arg-type]
        }

    def described(self) -> dict[str, str]:
        """What a reader of the report may want to know about the run."""
        return {
            "Contexts": self._source.rows.name,
            "Predictor": type(self.pipeline.predictor).__name__,
            "Problem": type(self.pipeline.problem).__name__,
            "Search": type(self._common["search"]).__name__,
        }


def _counts(criterion: Criterion) -> set[int]:
    """For how many rows a criterion has values; a vector is one for all."""
    return {len(values) for values in criterion.row_values().values() if values.ndim > 1}
