"""A run of training on disk: all that it needs to resume, and what identifies it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cfopt.errors import InputError
from cfopt.generative.progress import Epoch
from cfopt.storage import weights


@dataclass(frozen=True)
class Snapshot:
    """A run of training between two epochs.

    Arguments:
        now: the model's weights, by name.
        best: those of the best epoch so far.
        adam: the optimiser's moments, by number of the parameter and name: "0.exp_avg".
        generator: the state of the random numbers.
        history: the report of each epoch.
    """

    now: dict[str, Tensor]
    best: dict[str, Tensor]
    adam: dict[str, Tensor]
    generator: Tensor
    history: list[Epoch]


class Checkpoint:
    """A file from which a run of training resumes, that run and no other.

    Arguments:
        path: the file to write and to resume from.
        settings: what must be the same for that, as JSON can hold it.
        data: what must be the same to the last bit; only digests of them are stored.
    """

    def __init__(
        self, path: Path, settings: Mapping[str, Any], data: Mapping[str, Tensor | None]
    ) -> None:
        self.path = path
        self._settings: dict[str, Any] = json.loads(json.dumps(dict(settings)))
        self._digests = {name: _digest(value) for name, value in data.items()}

    def read(self) -> Snapshot | None:
        """The state that was written last, None if there is no file yet."""
        if not self.path.exists():
            return None
        tensors, about = weights.read(self.path)
        differences = ", ".join(self._differences(about.get("configuration")))
        if differences:
            raise InputError(
                f"The checkpoint {self.path} belongs to something else: {differences}. Pass the "
                "same data, model, settings and predictor as before, or another file."
            )
        try:
            return Snapshot(
                now=_under("now.", tensors),
                best=_under("best.", tensors),
                adam=_under("adam.", tensors),
                generator=tensors["generator"],
                history=[Epoch(**epoch) for epoch in about["history"]],
            )
        except (KeyError, TypeError) as error:
            raise self.misfit(error) from error

    def write(self, snapshot: Snapshot) -> None:
        """Replace what was written before."""
        groups = {"now": snapshot.now, "best": snapshot.best, "adam": snapshot.adam}
        tensors = {
            f"{group}.{name}": value
            for group, named in groups.items()
            for name, value in named.items()
        }
        tensors["generator"] = snapshot.generator
        configuration = self._settings | self._digests
        history = [asdict(epoch) for epoch in snapshot.history]
        weights.write(self.path, tensors, {"history": history, "configuration": configuration})

    def misfit(self, reason: object) -> InputError:
        """The error for a file that claims to belong to this run but cannot."""
        return InputError(
            f"The checkpoint {self.path} is damaged, or of another version of cfopt: {reason}. "
            "Delete it to start again."
        )

    def _differences(self, theirs: object) -> Iterator[str]:
        """How the run of the file differs from this one, in words."""
        if not isinstance(theirs, dict):
            yield "it is not a checkpoint of training"
            return
        for name, ours in self._settings.items():
            then = theirs.get(name)
            if isinstance(ours, dict) and isinstance(then, dict):
                changed = [key for key in ours | then if ours.get(key) != then.get(key)]
                for key in sorted(changed):
                    yield f"{key} was {then.get(key)}, is {ours.get(key)}"
            elif then != ours:
                yield f"{name} was {then}, is {ours}"
        for name, digest in self._digests.items():
            if theirs.get(name) != digest:
                yield f"other {name}"


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    named = {name: value for name, value in tensors.items() if name.startswith(prefix)}
    return {name.removeprefix(prefix): value for name, value in named.items()}


def _digest(data: Tensor | None) -> str | None:
    if data is None:
        return None
    # As bytes: NumPy does not know every dtype.
    plain = data.detach().cpu().contiguous().view(torch.uint8)
    return hashlib.sha256(plain.numpy().data).hexdigest()
