"""Training a VAE: the bound it follows, when it stops, and how it goes on after a kill."""

from __future__ import annotations

import math
import os
import shutil
import signal
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cfopt.errors import InputError, PredictorError
from cfopt.generative import (
    VAE,
    Batch,
    CompactVAE,
    Epoch,
    Gaussian,
    TabularVAE,
    Terms,
    Training,
    active_latents,
    divergence,
    terms,
    train,
)
from cfopt.question.plausibility import encoded_mass
from cfopt.storage import files, weights

QUICK = Training(epochs=4, batch_size=16, warm_up=1, learning_rate=3e-3)
AWARE = replace(QUICK, alpha=0.5)


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """More would only get in each other's way with tensors as small as these."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _data(rows: int = 50, seed: int = 0) -> Tensor:
    """Five features of which two decide the rest."""
    generator = torch.Generator().manual_seed(seed)
    causes = torch.randn(rows, 2, generator=generator)
    mixed = causes @ torch.tensor([[1.0, -1.0, 0.5, 2.0, 0.0], [0.0, 1.0, 1.0, -1.0, 3.0]])
    return 2 * mixed + 0.1 * torch.randn(rows, 5, generator=generator) + 1


def _vae(seed: int = 0, latent_dim: int = 2) -> TabularVAE:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return TabularVAE(5, latent_dim, hidden=8).standardise(_data())


def _predictor(seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3))


def _state(vae: VAE) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in vae.state_dict().items()}


def _same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


def _run(
    training: Training = QUICK, vae: VAE | None = None, **options: Any
) -> tuple[list[Epoch], dict[str, Tensor]]:
    vae = vae or _vae()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # so short a training may well collapse
        history = train(vae, _data(), _data(20, seed=1), training, **options)
    return history, _state(vae)


# The bound


def test_the_divergence_is_that_of_torch() -> None:
    mean, log_variance = torch.randn(6, 4).double(), torch.randn(6, 4).double()
    ours = torch.distributions.Normal(mean, (log_variance / 2).exp())
    prior = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
    expected = torch.distributions.kl_divergence(ours, prior).sum(1)
    assert torch.allclose(divergence(Gaussian(mean, log_variance)), expected, rtol=1e-12)


def test_the_loss_is_the_negative_bound_of_numpy() -> None:
    """Sums over pixels and costs, one sample for both terms; the mean is over rows alone."""
    vae = CompactVAE(3, rows=2, cols=2, cell=2, channels=3).double()
    predictor = nn.Sequential(nn.Flatten(), nn.Linear(48, 5)).double()
    x = torch.rand(7, 3, 4, 4, dtype=torch.float64)
    found = terms(vae, x, predictor, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        mean, log_variance = (part.numpy() for part in vae.distribution(x))
        noise = torch.randn(
            7, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64
        ).numpy()
        decoded = vae.decode(torch.from_numpy(mean + np.exp(log_variance / 2) * noise)).numpy()
    weight, bias = (p.detach().numpy() for p in predictor.parameters())
    expected = []
    for row in range(7):
        error = sum(d**2 for d in (x[row].numpy() - decoded[row]).ravel())
        moved = weight @ (x[row].numpy().ravel() - decoded[row].ravel())
        variance = np.exp(log_variance[row])
        kl = -0.5 * np.sum(1 + log_variance[row] - variance - mean[row] ** 2)
        expected.append(-(-0.5 * error - kl - 0.7 * np.sum(moved**2)))
    assert np.allclose(found.loss(0.7).detach().numpy(), expected, rtol=1e-10)
    known = terms(vae, x, predictor, predictor(x), torch.Generator().manual_seed(3))
    assert torch.allclose(known.loss(0.7), found.loss(0.7))
    assert bias.shape == (5,)


def test_an_epoch_reports_means_over_rows() -> None:
    predictor = _predictor().eval()
    history, _ = _run(replace(AWARE, epochs=1), vae := _vae(), predictor=predictor)
    x = _data(20, seed=1)
    with torch.no_grad():
        found = terms(vae, x, predictor, generator=torch.Generator().manual_seed(0))
    (epoch,) = history
    assert epoch.reconstruction == pytest.approx(found.reconstruction.mean().item(), rel=1e-5)
    assert epoch.costs == pytest.approx(found.costs.mean().item(), rel=1e-5)
    loss = 0.5 * epoch.reconstruction + epoch.divergence + 0.5 * epoch.costs
    assert epoch.validation == pytest.approx(loss, rel=1e-5)


def test_the_first_step_is_adams_along_the_gradient_of_the_mean() -> None:
    """Adam's first step is the learning rate times the sign of the gradient."""
    vae, settings = _vae(), replace(QUICK, epochs=1, batch_size=50, warm_up=2)
    before = {name: p.detach().clone() for name, p in vae.named_parameters()}
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(50, generator=generator)
    found = terms(vae, _data()[order], generator=generator)
    value = (0.5 * found.reconstruction + 0.5 * found.divergence).mean()  # half of the warm-up
    gradients = torch.autograd.grad(value, list(vae.parameters()))
    _, after = _run(settings, vae)
    for (name, start), gradient in zip(before.items(), gradients, strict=True):
        clear = gradient.abs() > 1e-4
        moved = (after[name] - start)[clear]
        assert torch.allclose(moved, -3e-3 * gradient[clear].sign(), rtol=1e-2)


@pytest.mark.parametrize(
    ("warm_up", "expected"),
    [
        (2, [1 / 8, 2 / 8, 3 / 8, 4 / 8, 5 / 8, 6 / 8, 7 / 8, 1, 1, 1, 1, 1]),
        (1, [1 / 4, 2 / 4, 3 / 4, *[1] * 9]),
        (0, [1] * 12),
    ],
)
def test_the_divergence_comes_to_count_step_by_step(
    warm_up: int, expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, loss = [], Terms.loss

    def spy(self: Terms, alpha: float, weight: float | None = None) -> Tensor:
        if weight is not None:  # validation always counts it fully
            seen.append(weight)
        return loss(self, alpha, 1.0 if weight is None else weight)

    monkeypatch.setattr(Terms, "loss", spy)
    _run(replace(QUICK, epochs=3, warm_up=warm_up))
    assert seen == pytest.approx(expected)


# The predictor


def test_without_alpha_the_predictor_is_never_called() -> None:
    def trap(_: Tensor) -> Tensor:
        raise AssertionError("called")

    history, state = _run(QUICK, predictor=trap)
    plain = _run(QUICK)
    assert history == plain[0]
    assert _same(state, plain[1])
    assert all(epoch.costs == 0 for epoch in history)


def test_the_predictor_is_left_as_it_was() -> None:
    predictor = _predictor()
    predictor[0].weight.requires_grad_(False)
    predictor[3].eval()
    before = {name: value.clone() for name, value in predictor.state_dict().items()}
    _run(AWARE, predictor=predictor)
    assert _same(before, predictor.state_dict())  # the statistics of its BatchNorm, too
    assert [p.requires_grad for p in predictor.parameters()] == [False] + 5 * [True]
    assert [m.training for m in predictor] == [True, True, True, False]
    assert all(p.grad is None for p in predictor.parameters())


def test_a_function_around_a_predictor_gathers_no_gradients() -> None:
    predictor = _predictor().eval()
    history, state = _run(AWARE, predictor=lambda x: predictor(x))
    assert all(p.grad is None for p in predictor.parameters())
    direct = _run(AWARE, predictor=_predictor())
    assert history == direct[0]
    assert _same(state, direct[1])


def test_costs_that_count_are_kept_better() -> None:
    """One latent for two causes: the plain VAE keeps the one that most features show."""
    predictor = nn.Linear(5, 1)
    with torch.no_grad():
        predictor.weight.copy_(torch.tensor([[1.0, 0.0, 0.0, 0.0, 0.0]]))
    settings = Training(epochs=60, batch_size=8, learning_rate=1e-2, patience=60)
    x, errors = _data(200, seed=2), []
    for alpha in (0.0, 1.0):
        vae = _vae(latent_dim=1)
        _run(replace(settings, alpha=alpha), vae, predictor=predictor)
        with torch.no_grad():
            errors.append((predictor(vae(x)) - predictor(x)).square().sum(1).mean().item())
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize(
    ("predictor", "words"),
    [
        (lambda x: x.sum(1), r"costs of shape \(20, n\).*got shape \(20,\)"),
        (lambda x: x.log(), "costs that are not finite"),
        (lambda x: x[:1], r"got shape \(1, 5\)"),
    ],
)
def test_costs_of_another_form_are_refused(
    predictor: Callable[[Tensor], Tensor], words: str, tmp_path: Path
) -> None:
    with pytest.raises(PredictorError, match=words):
        _run(AWARE, predictor=predictor, checkpoint=tmp_path / "c")
    assert not list(tmp_path.iterdir())


# Data, and when training stops


def test_bytes_and_their_floats_train_alike() -> None:
    images = torch.randint(0, 256, (24, 3, 4, 4), dtype=torch.uint8)
    found = []
    for data in (images, images.float() / 255):
        torch.manual_seed(0)
        vae = CompactVAE(2, rows=2, cols=2, cell=2, channels=3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            history = train(vae, data[:16], data[16:], replace(QUICK, epochs=2))
        found.append((history, _state(vae)))
    assert found[0][0] == found[1][0]
    assert _same(found[0][1], found[1][1])


@pytest.mark.parametrize(
    ("contexts", "validation", "words"),
    [
        (_data()[:0], _data(), "needs 1 or more contexts, got 0"),
        (_data(), _data()[:1], "needs 2 or more validation contexts, got 1"),
        (_data()[:, :4], _data(), r"built for contexts of shape \(5,\), got \(4,\)"),
        (_data(), _data()[:, :1], r"built for contexts of shape \(5,\), got \(1,\)"),
        (_data().log(), _data(), "needs finite contexts; some of rows 0 to 49"),
    ],
)
def test_data_that_do_not_fit_are_refused_before_training(
    contexts: Tensor, validation: Tensor, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        train(_vae(), contexts, validation, QUICK, on_progress=lambda _: pytest.fail("trained"))


def test_images_from_0_to_255_are_refused_before_training() -> None:
    vae = CompactVAE(2, rows=2, cols=2, cell=2, channels=3)
    good, bad = torch.rand(4, 3, 4, 4), 255 * torch.rand(4, 3, 4, 4)
    for data in ((bad, good), (good, bad)):
        with pytest.raises(InputError, match="divide by 255"):
            train(vae, *data, QUICK, on_progress=lambda _: pytest.fail("trained"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"alpha": -1.0},
        {"alpha": math.nan},
        {"epochs": 0},
        {"learning_rate": 0.0},
        {"learning_rate": math.inf},
        {"batch_size": 0},
        {"warm_up": -1},
        {"patience": 0},
        {"seed": -1},
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"Training needs {next(iter(wrong))}"):
        Training(**wrong)


def test_costs_can_count_only_with_a_predictor() -> None:
    with pytest.raises(InputError, match=r"alpha = 0.5 needs a predictor"):
        _run(AWARE)


def test_training_ends_after_idle_epochs_with_the_best_weights() -> None:
    states: list[dict[str, Tensor]] = []
    vae = _vae()

    def keep(report: Batch | Epoch) -> None:
        if isinstance(report, Epoch):
            states.append(_state(vae))

    settings = Training(epochs=40, learning_rate=0.2, batch_size=8, warm_up=0, patience=3)
    history, state = _run(settings, vae, on_progress=keep)
    losses = [epoch.validation for epoch in history]
    best = losses.index(min(losses))
    assert len(history) == best + 1 + 3 < 40
    assert _same(state, states[best])
    assert not _same(state, states[-1])
    assert [epoch.number for epoch in history] == list(range(1, len(history) + 1))


class _Worsening(TabularVAE):
    """Looks worse at each validation."""

    validations = 0

    def squared_error(self, x: Tensor, decoded: Tensor) -> Tensor:
        self.validations += not self.training
        return super().squared_error(x, decoded) + (0 if self.training else 10 * self.validations)


@pytest.mark.parametrize(
    ("warm_up", "patience", "epochs"), [(0, 1, 2), (0, 3, 4), (6, 1, 7), (6, 3, 9), (1, 3, 4)]
)
def test_idle_epochs_do_not_count_while_the_divergence_warms_up(
    warm_up: int, patience: int, epochs: int
) -> None:
    settings = Training(epochs=20, batch_size=16, warm_up=warm_up, patience=patience)
    history, _ = _run(settings, _Worsening(5, 2, 8))
    assert len(history) == epochs


def test_progress_counts_contexts_and_means_their_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[Batch | Epoch] = []
    values, loss = [], Terms.loss

    def spy(self: Terms, *given: float) -> Tensor:
        values.append(loss(self, *given).detach())
        return loss(self, *given)

    monkeypatch.setattr(Terms, "loss", spy)
    _run(replace(QUICK, epochs=1), on_progress=reports.append)
    assert [r.done for r in reports if isinstance(r, Batch)] == [16, 32, 48, 50]
    assert isinstance(reports[-1], Epoch)
    assert reports[-1].loss == pytest.approx(torch.cat(values[:4]).mean().item(), rel=1e-5)


class _Poisoned(TabularVAE):
    """Fails from a given call of its encoder on."""

    def __init__(self, after: int) -> None:
        super().__init__(5, 2, 8)
        self.calls, self.after = 0, after

    def distribution(self, x: Tensor) -> Gaussian:
        self.calls += 1
        mean, log_variance = super().distribution(x)
        return Gaussian(mean * (math.nan if self.calls > self.after else 1), log_variance)


@pytest.mark.parametrize("after", [0, 2, 4])  # first batch, third batch, validation
def test_a_loss_that_is_not_finite_is_an_error_and_leaves_finite_weights(
    after: int, tmp_path: Path
) -> None:
    vae = _Poisoned(after)
    before = _state(vae)
    with pytest.raises(InputError, match=r"failed in epoch 1.*learning rate below 0.003"):
        train(vae, _data(), _data(20), QUICK, checkpoint=tmp_path / "c")
    assert _same(before, _state(vae))
    assert not list(tmp_path.iterdir())


def test_too_high_a_learning_rate_is_named() -> None:
    with pytest.raises(InputError, match=r"no longer finite. Use a learning rate below 1e\+10"):
        _run(Training(epochs=5, learning_rate=1e10, batch_size=8))


def test_a_collapse_is_warned_of() -> None:
    """Where contexts vary far less than the decoder's unit variance, no latent is worth its KL."""
    generator = torch.Generator().manual_seed(0)
    noise = 1e-3 * torch.randn(60, 5, generator=generator)
    vae = TabularVAE(5, 3, 8)
    settings = Training(epochs=20, learning_rate=3e-3, batch_size=8, warm_up=0)
    with pytest.warns(UserWarning, match="collapsed: only 0 of 3 latents") as caught:
        history = train(vae, noise[:40], noise[40:], settings)
    assert caught[0].filename == __file__
    assert history[-1].active == 0
    assert history[-1].divergence < 0.01


def test_a_healthy_training_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settings = Training(epochs=20, learning_rate=1e-2, batch_size=8)
        history = train(_vae(), _data(200), _data(50, seed=1), settings)
    assert history[-1].active == 2
    assert history[-1].validation < history[0].validation


def test_active_latents_are_those_of_the_plausibility_table() -> None:
    means = torch.randn(100, 4) * torch.tensor([1.0, 0.05, 0.2, 0.0])
    assert active_latents(means) == encoded_mass(means, None, [1.0]).active == 2
    assert active_latents(means) == int((np.var(means.numpy(), axis=0, ddof=1) > 0.01).sum())


def test_global_state_is_left_alone() -> None:
    state = torch.get_rng_state()
    with torch.no_grad():  # a caller's own mode is no obstacle
        _run(QUICK, _vae())
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), state)


# Checkpoints


class _KilledError(Exception):
    pass


def _kill_at(epoch: int, done: int | None) -> Callable[[Batch | Epoch], None]:
    """Stop in an epoch after so many contexts, or right at its end."""

    def on_progress(report: Batch | Epoch) -> None:
        if isinstance(report, Batch):
            if (report.epoch, report.done) == (epoch, done):
                raise _KilledError
        elif done is None and report.number == epoch:
            raise _KilledError

    return on_progress


@pytest.mark.parametrize(("epoch", "done"), [(1, 32), (2, 16), (2, None), (3, 50), (4, None)])
def test_a_run_that_was_killed_goes_on_as_if_undisturbed(
    epoch: int, done: int | None, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"predictor": _predictor(), "checkpoint": tmp_path / "c"}
    undisturbed = _run(AWARE, predictor=_predictor())
    with pytest.raises(_KilledError):
        _run(AWARE, on_progress=_kill_at(epoch, done), **options)
    # With a checkpoint, its first weights do not matter.
    history, state = _run(AWARE, _vae(seed=9 if epoch > 1 else 0), **options)
    assert history == undisturbed[0]
    assert _same(state, undisturbed[1])
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_early_stopping_is_resumed_too(tmp_path: Path) -> None:
    settings = Training(epochs=40, learning_rate=0.2, batch_size=8, warm_up=0, patience=3)
    undisturbed = _run(settings)
    last = len(undisturbed[0])
    assert last < 40
    for epoch in (last - 2, last - 1):  # among the idle ones
        with pytest.raises(_KilledError):
            _run(settings, on_progress=_kill_at(epoch, None), checkpoint=tmp_path / "c")
    history, state = _run(settings, checkpoint=tmp_path / "c")
    assert history == undisturbed[0]
    assert _same(state, undisturbed[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a process to kill")
def test_a_process_that_is_killed_leaves_a_checkpoint_to_go_on_from(tmp_path: Path) -> None:
    def die(report: Batch | Epoch) -> None:
        if isinstance(report, Batch) and (report.epoch, report.done) == (3, 32):
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if not child:
        try:
            _run(QUICK, on_progress=die, checkpoint=tmp_path / "c")
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    reports: list[Batch | Epoch] = []
    history, state = _run(QUICK, checkpoint=tmp_path / "c", on_progress=reports.append)
    assert [report.number for report in reports if isinstance(report, Epoch)] == [3, 4]
    undisturbed = _run(QUICK)
    assert history == undisturbed[0]
    assert _same(state, undisturbed[1])


def test_a_finished_run_is_returned_at_once(tmp_path: Path) -> None:
    first = _run(AWARE, predictor=_predictor(), checkpoint=tmp_path / "c")
    before = (tmp_path / "c").read_bytes()
    calls = []
    predictor = _predictor().eval()

    def counting(x: Tensor) -> Tensor:
        calls.append(len(x))
        return predictor(x)

    again = _run(
        AWARE,
        _vae(seed=9),
        predictor=counting,
        checkpoint=tmp_path / "c",
        on_progress=lambda _: pytest.fail("trained"),
    )
    assert again[0] == first[0]
    assert _same(again[1], first[1])
    assert calls == [20]  # the validation data, to know the predictor by
    assert (tmp_path / "c").read_bytes() == before


def _other(**changes: Any) -> dict[str, Any]:
    given = {
        "vae": _vae(),
        "contexts": _data(),
        "validation": _data(20, seed=1),
        "training": AWARE,
        "predictor": _predictor(),
    }
    return given | changes


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (_other(contexts=_data(seed=5)), "something else: other contexts. Pass"),
        (_other(contexts=_data()[:49]), "other contexts"),
        (_other(contexts=_data().double()), "other contexts"),
        (_other(validation=_data(20, seed=5)), "other validation, other costs"),
        (_other(predictor=_predictor(seed=5)), "something else: other costs. Pass.*and predictor"),
        (_other(training=replace(AWARE, epochs=9)), "something else: epochs was 4, is 9. Pass"),
        (
            _other(training=replace(AWARE, alpha=0.0, seed=3)),
            "alpha was 0.5, is 0.0, seed was 0, is 3, other costs",
        ),
        (_other(vae=TabularVAE(5, 2, hidden=9)), "hidden was 8, is 9"),
        (_other(vae=_Poisoned(99)), "model was TabularVAE, is _Poisoned"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_and_kept(
    given: dict[str, Any], words: str, tmp_path: Path
) -> None:
    _run(replace(AWARE, epochs=4), predictor=_predictor(), checkpoint=tmp_path / "c")
    before, weights_before = (tmp_path / "c").read_bytes(), _state(given["vae"])
    vae, contexts, validation, training = (
        given[name] for name in ("vae", "contexts", "validation", "training")
    )
    with pytest.raises(InputError, match=words):
        train(
            vae,
            contexts,
            validation,
            training,
            predictor=given["predictor"],
            checkpoint=tmp_path / "c",
        )
    assert (tmp_path / "c").read_bytes() == before
    assert _same(_state(vae), weights_before)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def _rewrite(path: Path, **changes: Any) -> None:
    """A file that says it is of this run and lacks something."""
    tensors, about = weights.read(path)
    kept = {k: v for k, v in tensors.items() if not k.startswith(changes.get("drop", "?"))}
    weights.write(path, kept, about | changes.get("about", {}))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_truncate, "it is damaged"),
        (lambda path: path.write_text("notes"), "safetensors"),
        (lambda path: weights.save_module(_vae(), path), "it is not a checkpoint of training"),
        (lambda path: _rewrite(path, drop="generator"), "damaged, or of another version"),
        (lambda path: _rewrite(path, drop="best."), "damaged, or of another version"),
        (lambda path: _rewrite(path, drop="now.decoder"), "damaged, or of another version"),
        (lambda path: _rewrite(path, about={"history": [{"n": 1}]}), "damaged, or of another"),
        (lambda path: _rewrite(path, about={"history": None}), "damaged, or of another"),
    ],
)
def test_a_damaged_or_foreign_checkpoint_is_named(
    spoil: Callable[[Path], object], words: str, tmp_path: Path
) -> None:
    _run(QUICK, checkpoint=tmp_path / "c")
    spoil(tmp_path / "c")
    vae = _vae(seed=4)
    before = _state(vae)
    with pytest.raises(InputError, match=words):
        _run(QUICK, vae, checkpoint=tmp_path / "c", on_progress=lambda _: pytest.fail("trained"))
    assert _same(_state(vae), before)


def test_what_cannot_be_saved_is_not_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trap(_: object) -> Any:
        pytest.fail("trained or predicted")

    options: dict[str, Any] = {"predictor": trap, "on_progress": trap}
    with pytest.raises(InputError, match="There is no folder"):
        _run(AWARE, checkpoint=tmp_path / "nowhere" / "c", **options)
    vae = _vae()
    needed = 2 * 4 * sum(value.nbytes for value in vae.state_dict().values())
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=needed))
    with pytest.raises(InputError, match=r"has room for .* MB, .* MB are needed"):
        _run(AWARE, vae, checkpoint=tmp_path / "c", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("where", ["os.fsync", "pathlib.Path.replace"])
def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(_KilledError):
        _run(QUICK, on_progress=_kill_at(2, None), checkpoint=tmp_path / "c")
    before = (tmp_path / "c").read_bytes()

    def full(*_: object) -> Any:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(where, full)
        with pytest.raises(InputError, match=r"could not be written.*No space left"):
            _run(QUICK, checkpoint=tmp_path / "c")
    assert (tmp_path / "c").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert _run(QUICK, checkpoint=tmp_path / "c")[0] == _run(QUICK)[0]


def test_the_room_that_is_checked_suffices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    check = files.check_room
    monkeypatch.setattr(
        files, "check_room", lambda folder, size: (asked.append(size), check(folder, size))
    )
    _run(QUICK, checkpoint=tmp_path / "c")
    assert (tmp_path / "c").stat().st_size <= asked[0] / 2


def test_the_progress_bar_shows_epochs_and_what_they_came_to() -> None:
    import io

    from rich.console import Console

    from cfopt.generative import Batch, Epoch, ProgressBar

    shown = io.StringIO()
    with ProgressBar("a VAE", 4, Console(file=shown, width=150)) as bar:
        bar(Batch(1, 32, 64, 5.0))
        bar(Epoch(3, 1.0, 2.0, 17.5, 3.0, 0.0, 6))
    text = shown.getvalue()
    assert "a VAE: squared error 17.5" in text
    assert "6 active latents" in text
    assert "3/4" in text
