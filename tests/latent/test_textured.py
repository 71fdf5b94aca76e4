"""The sharp VAE against its formula, written out with loops."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cfopt.errors import InputError
from cfopt.generative import Anchored, Flow, FlowPrior, TexturedVAE, Training, train
from cfopt.storage.weights import load_module, save_module
from cfopt.testing import GenerativeContract


def _small(rows: int = 2, cols: int = 3) -> TexturedVAE:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return TexturedVAE(rows, cols, cell=4, fields=2, textures=3, width=4).eval()


def _maps(count: int, rows: int = 2, cols: int = 3, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand((count, 3, 4 * rows, 4 * cols), generator=generator)


class TestTexturedVAE(GenerativeContract):
    def model(self) -> TexturedVAE:
        return _small()

    def contexts(self) -> Tensor:
        return _maps(4)


@torch.no_grad()
def test_a_pixel_is_its_textures_by_their_shares_and_lights() -> None:
    vae = _small().double()
    z = torch.randn((1, 12), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    layers: Any = vae.decoder
    fields = layers["fields"](z.reshape(1, 2, 2, 3))
    whole = torch.nn.functional.interpolate(fields, (8, 12), mode="bicubic")
    found = vae.decode(z)[0].numpy()
    weight = layers["pixels"][1].weight[:, :, 0, 0].numpy()
    bias = layers["pixels"][1].bias.numpy()
    for row, col in ((0, 0), (3, 7), (7, 11)):
        seen = whole[0, :, row, col].numpy()
        values = weight @ (seen / (1 + np.exp(-seen))) + bias
        shares = np.exp(values[:3]) / np.exp(values[:3]).sum()
        lights = 1 / (1 + np.exp(-values[3:]))
        colours = 1 / (1 + np.exp(-10 * vae.texture[:, :, row, col].numpy()))
        assert np.allclose(found[:, row, col], (shares * lights) @ colours, atol=1e-9)


@torch.no_grad()
def test_ambiguity_is_what_the_squared_distance_lacks_of_that_of_drawn_pixels() -> None:
    vae = _small().double()
    z = torch.randn((2, 12), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x0, layers = _maps(2).double(), vae.decoder
    smooth = torch.nn.functional.interpolate(
        layers["fields"](z.reshape(2, 2, 2, 3)),  # type: ignore[index]
        (8, 12),
        mode="bicubic",
    )
    shares, lights = layers["pixels"](smooth).chunk(2, dim=1)  # type: ignore[index]
    # Every texture in turn is what a pixel shows, as often as its share says.
    expected = torch.zeros(2, 8, 12, dtype=torch.float64)
    for k in range(3):
        shown = lights[:, k, None].sigmoid() * (10 * vae.texture[k]).sigmoid()
        expected += shares.softmax(1)[:, k] * (shown - x0).square().sum(1)
    lacking = expected - (vae.decode(z) - x0).square().sum(1)
    assert lacking.min() > 1e-4
    # Of four pixels one is looked at, and stands for the others.
    assert torch.allclose(vae.ambiguity(z), 4 * lacking[:, ::2, ::2].flatten(1), atol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("wrapped", [False, True])
def test_contexts_and_their_ambiguity_are_the_same_in_one_pass(wrapped: bool) -> None:
    vae = _small().double()
    model: Any = vae
    if wrapped:
        flow = Flow(12, grid=(2, 2, 3)).double()
        codes = torch.randn((50, 12), generator=torch.Generator().manual_seed(2)).double()
        model = Anchored(FlowPrior(vae, flow.standardise(codes)))
    z = torch.randn((6, 12), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    contexts, undecided = model.shown(z)
    assert torch.allclose(contexts, model.decode(z), atol=1e-12)
    assert torch.allclose(undecided, model.ambiguity(z), atol=1e-12)


@torch.no_grad()
def test_where_one_texture_has_it_all_nothing_is_ambiguous() -> None:
    vae = _small()
    last = vae.decoder["pixels"][1]  # type: ignore[index]
    last.bias[1] = 60.0
    assert vae.ambiguity(torch.zeros(1, 12)).max() < 1e-6


@torch.no_grad()
def test_a_code_changes_what_is_near_its_cell_and_nothing_else() -> None:
    vae = _small(1, 16)
    z = torch.zeros(1, vae.latent_dim)
    moved = z.clone()
    moved[0, 0] = 2.0  # of the first cell
    changed = (vae.decode(moved) - vae.decode(z)).abs().amax((0, 1, 2)) > 1e-6
    assert changed[:4].any()
    # Two convolutions reach two cells, and the interpolation two more.
    assert not changed[6 * 4 :].any()


def test_the_misfit_counts_pixels_and_differences_of_neighbours() -> None:
    vae, x, y = _small(), _maps(2), _maps(2, seed=1)
    error = (x - y).numpy().astype(np.float64)
    total = np.abs(error).sum((1, 2, 3))
    total += np.abs(error[:, :, 1:] - error[:, :, :-1]).sum((1, 2, 3))
    total += np.abs(error[..., 1:] - error[..., :-1]).sum((1, 2, 3))
    assert np.allclose(vae.misfit(x, y).numpy(), 3.0 * total, rtol=1e-5)


def test_training_lowers_the_error_and_weights_survive_the_file(tmp_path: Path) -> None:
    # Maps that are dark or bright all over, which a code can say.
    vae = _small()
    x = (0.1 + 0.8 * (torch.arange(24.0) % 2))[:, None, None, None].repeat(1, 3, 8, 12)
    with torch.no_grad():
        before = vae.squared_error(x, vae(x)).mean()
    train(vae, x, x[:4], Training(epochs=12, learning_rate=3e-2, batch_size=8, patience=20))
    with torch.no_grad():
        assert vae.squared_error(x, vae(x)).mean() < 0.7 * before
    save_module(vae.calibrate(x), tmp_path / "vae.safetensors")
    again = load_module(tmp_path / "vae.safetensors", {"TexturedVAE": TexturedVAE})
    assert torch.equal(again(x), vae(x))
    assert torch.equal(again.usual_errors, vae.usual_errors)  # type: ignore[arg-type]


def test_usual_errors_are_quantiles_of_those_of_held_out_maps() -> None:
    vae, x = _small(), _maps(9)
    with torch.no_grad():
        errors = vae.squared_error(x, vae(x)).numpy()
    usual = vae.calibrate(x).usual_errors.numpy()
    assert usual[[0, 100, 200]] == pytest.approx(np.quantile(errors, [0, 0.5, 1]), rel=1e-5)


@pytest.mark.parametrize(
    ("given", "words"),
    [({"cell": 6}, "got 12, 12, 2, 6, 24 and 6"), ({"precision": math.inf}, "finite precision")],
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        TexturedVAE(**given)  # type: ignore[arg-type]
