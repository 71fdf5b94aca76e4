"""Training a VAE or a flow: in small batches, watched, and resumed where it was stopped."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cfopt.errors import InputError
from cfopt.generative.checkpoint import Checkpoint, Snapshot
from cfopt.generative.cost_aware import Terms
from cfopt.generative.flow import Flow
from cfopt.generative.progress import Batch, Epoch
from cfopt.generative.samples import Samples
from cfopt.generative.vae import VAE
from cfopt.pipeline import Predictor
from cfopt.pipeline.eval_mode import frozen
from cfopt.question.plausibility import encoded_mass
from cfopt.storage import files


@dataclass(frozen=True)
class Training:
    """How to train.

    Arguments:
        alpha: the weight of costs (Eq. 8); 0 is the plain VAE.
        epochs: the most epochs to train.
        learning_rate: Adam's first learning rate; it falls to a twentieth along a cosine.
        batch_size: contexts in a step.
        warm_up: epochs over which the divergence reaches its full weight.
        patience: epochs without a better validation loss that end the training.
        seed: the seed of batches and samples.
    """

    alpha: float = 0.0
    epochs: int = 40
    learning_rate: float = 1e-3
    batch_size: int = 64
    warm_up: int = 2
    patience: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        needs = {
            "alpha >= 0": 0 <= self.alpha < math.inf,
            "epochs >= 1": self.epochs >= 1,
            "learning_rate > 0": 0 < self.learning_rate < math.inf,
            "batch_size >= 1": self.batch_size >= 1,
            "warm_up >= 0": self.warm_up >= 0,
            "patience >= 1": self.patience >= 1,
            "seed >= 0": self.seed >= 0,
        }
        for need, met in needs.items():
            if not met:
                raise InputError(f"Training needs {need}; got {self}.")


def train(
    vae: VAE | Flow,
    contexts: Tensor,
    validation: Tensor,
    training: Training | None = None,
    *,
    predictor: Predictor | None = None,
    checkpoint: str | Path | None = None,
    on_progress: Callable[[Batch | Epoch], None] | None = None,
) -> list[Epoch]:
    """Train a VAE or a flow in place, and return the result of each epoch.

    However training ends, the model has its best weights so far, and is in eval mode.

    Arguments:
        vae: what to train.
        contexts: the data, `(N, ...)`; uint8 images are turned into floats batch by batch.
        validation: data to stop by, `(M, ...)` with M >= 2.
        training: the settings.
        predictor: phi, needed for alpha > 0; it is left as it is.
        checkpoint: a file to which the state is written after each epoch. If it exists,
            training resumes from it.
        on_progress: called after each batch and each epoch.
    """
    run = _Run(vae, contexts, validation, training or Training(), predictor)
    file = None
    if checkpoint is not None:
        # Twice: the old state is replaced only when the new one is complete.
        files.check_room(Path(checkpoint).parent, 2 * run.size())
    try:
        with torch.enable_grad(), frozen(run.predictor):
            if checkpoint is not None:
                file = Checkpoint(Path(checkpoint), run.settings(), run.data())
                run.restore(file)
            for report in run.epochs():
                if isinstance(report, Epoch) and file is not None:
                    file.write(run.snapshot())
                if on_progress is not None:
                    on_progress(report)
    finally:
        run.settle()
    run.warn_of_collapse()
    return run.history


def active_latents(means: Tensor) -> int:
    """How many entries of mean codes vary from context to context: `(N, n)` with N >= 2."""
    return encoded_mass(means, None, [0.0]).active


class _Run:
    def __init__(
        self,
        vae: VAE | Flow,
        contexts: Tensor,
        validation: Tensor,
        training: Training,
        predictor: Predictor | None,
    ) -> None:
        if training.alpha > 0 and predictor is None:
            raise InputError(
                f"alpha = {training.alpha:g} needs a predictor, whose costs the VAE should keep. "
                "Pass predictor=..., or alpha=0."
            )
        self.vae, self.training = vae, training
        self.predictor = predictor if training.alpha > 0 else None
        self.contexts = Samples("contexts", contexts, vae, self.predictor, least=1)
        # Two, as one code alone does not show which latents vary.
        self.validation = Samples("validation contexts", validation, vae, self.predictor, least=2)
        self.learning = [p for p in vae.parameters() if p.requires_grad]
        # Fused: all that happens to a weight happens while it is in the processor's cache.
        self.optimiser = torch.optim.Adam(vae.parameters(), lr=training.learning_rate, fused=True)
        self.generator = torch.Generator().manual_seed(training.seed)
        self.best = self._weights()
        self.history: list[Epoch] = []

    def epochs(self) -> Iterator[Batch | Epoch]:
        """Train until the epochs or the patience are used up."""
        while len(self.history) < self.training.epochs and self.idle < self.training.patience:
            loss = 0.0
            for batch in self._epoch(len(self.history)):
                loss = batch.loss
                yield batch
            self.history.append(self._validate(loss))
            if self.best_epoch is self.history[-1]:
                self.best = self._weights()
            yield self.history[-1]

    @property
    def best_epoch(self) -> Epoch:
        return min(self.history, key=lambda epoch: epoch.validation)

    @property
    def idle(self) -> int:
        """Epochs since the best one, not counting the warm-up."""
        since = max(self.training.warm_up, self.best_epoch.number if self.history else 0)
        return max(0, len(self.history) - since)

    def _epoch(self, number: int) -> Iterator[Batch]:
        """One pass over the data."""
        self.vae.train()
        plan, total = self.training, len(self.contexts)
        order = torch.randperm(total, generator=self.generator)
        done, loss, steps = 0, 0.0, math.ceil(total / plan.batch_size)
        for k, rows in enumerate(torch.split(order, plan.batch_size)):
            passed = number + k / steps
            for group in self.optimiser.param_groups:
                group["lr"] = plan.learning_rate * _cosine(passed / plan.epochs)
            weight = min(1.0, (passed + 1 / steps) / plan.warm_up) if plan.warm_up else 1.0
            found = self.contexts.terms(rows, self.generator)
            value = found.loss(plan.alpha, weight).mean()
            self._check_finite(value.item())
            self.optimiser.zero_grad()
            # The predictor may be a function with weights of its own: they gather no gradient.
            torch.autograd.backward(value, inputs=self.learning)
            self.optimiser.step()
            done += len(rows)
            loss += (value.item() - loss) * len(rows) / done
            yield Batch(number + 1, done, total, loss)

    @torch.no_grad()
    def _validate(self, loss: float) -> Epoch:
        self.vae.eval()
        # The same samples each time, so that epochs can be compared.
        generator = torch.Generator().manual_seed(self.training.seed)
        parts, means = [], []
        for rows in self.validation.parts():
            parts.append(self.validation.terms(rows, generator))
            means.append(self.vae.encode(self.validation.batch(rows)))
        found = Terms(*(torch.cat(part) for part in zip(*parts, strict=True)))
        validation = found.loss(self.training.alpha).mean().item()
        self._check_finite(validation)
        return Epoch(
            number=len(self.history) + 1,
            loss=loss,
            validation=validation,
            reconstruction=found.reconstruction.mean().item(),
            divergence=found.divergence.mean().item(),
            costs=found.costs.mean().item(),
            active=active_latents(torch.cat(means)),
        )

    def settle(self) -> None:
        """Put the best weights in place."""
        self.vae.load_state_dict(self.best)
        self.vae.eval()

    def warn_of_collapse(self) -> None:
        """Warn if hardly any latent is used."""
        active, size = self.best_epoch.active, self.vae.latent_dim
        if active < max(1, size // 10):
            warnings.warn(
                f"The posterior collapsed: only {active} of {size} latents carry information. Use "
                "a lower learning rate, a longer warm-up, or contexts on a larger scale.",
                UserWarning,
                stacklevel=3,
            )

    def _check_finite(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise InputError(
                f"Training failed in epoch {len(self.history) + 1}: the loss is no longer finite. "
                f"Use a learning rate below {self.training.learning_rate:g}."
            )

    def size(self) -> int:
        """About how many bytes a checkpoint takes: weights, the best ones, and Adam's state."""
        return 4 * sum(value.nbytes for value in self.best.values()) + 100_000

    def settings(self) -> dict[str, Any]:
        """What must be the same for training to resume, besides the data."""
        return {
            "model": type(self.vae).__name__,
            "settings": self.vae.settings(),
            "training": asdict(self.training),
        }

    def data(self) -> dict[str, Tensor | None]:
        """The data of the run; its predictor is known by the costs of some of them."""
        return {
            "contexts": self.contexts.contexts,
            "validation": self.validation.contexts,
            "costs": self.validation.costs,
        }

    def snapshot(self) -> Snapshot:
        """Everything that is needed to resume."""
        moments = self.optimiser.state_dict()["state"]
        return Snapshot(
            now=self._weights(),
            best=self.best,
            adam={f"{k}.{name}": value for k, of in moments.items() for name, value in of.items()},
            generator=self.generator.get_state(),
            history=list(self.history),
        )

    def restore(self, file: Checkpoint) -> None:
        """Resume where a checkpoint was written, if there is one."""
        found = file.read()
        if found is None:
            return
        try:
            state = self.optimiser.state_dict()
            for name, value in found.adam.items():
                number, moment = name.split(".")
                state["state"].setdefault(int(number), {})[moment] = value
            self.vae.load_state_dict(found.best)
            self.vae.load_state_dict(found.now)
            self.optimiser.load_state_dict(state)
            self.generator.set_state(found.generator)
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise file.misfit(error) from error
        self.best, self.history = found.best, found.history

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.vae.state_dict().items()}


def _cosine(fraction: float) -> float:
    """From 1 down to a twentieth."""
    return 0.05 + 0.475 * (1 + math.cos(math.pi * fraction))
