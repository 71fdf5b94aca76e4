"""Measures of realism against closed forms and images whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cfopt
from cfopt import metrics
from cfopt.errors import InputError


def _images(count: int, seed: int) -> Tensor:
    return torch.rand((count, 3, 16, 16), generator=torch.Generator().manual_seed(seed))


def test_moved_pixels_are_those_of_which_some_channel_moves_enough() -> None:
    x0 = torch.zeros(2, 3, 4, 4)
    x = x0.clone()
    x[0, 1, 0, 0], x[0, 2, 3, 3], x[1] = 0.2, 0.04, 0.06
    assert metrics.pixels_moved(x, x0).tolist() == [1 / 16, 1.0]


def test_sharpness_is_one_for_the_same_and_the_square_of_the_contrast() -> None:
    x = _images(3, 0)
    assert metrics.sharpness(x, x) == (1.0, 1.0)
    assert metrics.sharpness(0.5 * x + 0.2, x) == pytest.approx((0.25, 0.25))
    blurred = nn.functional.avg_pool2d(x, 3, 1, 1)
    assert max(metrics.sharpness(blurred, x)) < 0.3


def test_the_frechet_distance_of_normal_samples_is_the_closed_form() -> None:
    random = np.random.default_rng(0)
    a = random.normal(0.0, 1.0, (200_000, 2))
    b = random.normal(0.0, 1.0, (200_000, 2)) * [2.0, 0.5] + [1.0, 0.0]
    # |m - m'|^2 + sum (s - s')^2 for independent entries
    assert metrics.frechet_distance(a, b) == pytest.approx(1 + 1 + 0.25, rel=0.02)
    assert metrics.frechet_distance(a, a) == pytest.approx(0.0, abs=1e-9)


def test_features_are_what_the_last_layer_sees() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 4, stride=4), nn.ReLU(), nn.Conv2d(4, 1, 1))
    x = _images(5, 1)
    expected = network[:2](x).mean((2, 3)).detach().numpy()
    assert np.allclose(metrics.predictor_features(network, x), expected, atol=1e-6)
    with pytest.raises(InputError, match="linear layer, got Identity"):
        metrics.predictor_features(nn.Identity(), x)


@pytest.mark.long
def test_a_classifier_tells_blurred_images_from_real_ones_but_not_real_from_real() -> None:
    real, other = _images(40, 2), _images(40, 3)
    blurred = nn.functional.avg_pool2d(other, 3, 1, 1)
    assert metrics.two_sample_auc(blurred, real) > 0.95
    assert 0.3 < metrics.two_sample_auc(other, real) < 0.7
    with pytest.raises(InputError, match="got 2 folds of 3 and 40 images"):
        metrics.two_sample_auc(real[:3], other)


@pytest.mark.long
def test_a_classifier_tells_what_a_vae_makes_of_maps_from_maps() -> None:
    models = cfopt.load_terrain(80)
    real, others = models.maps[::2], models.maps[1::2]
    with torch.no_grad():
        remade = models.plain_vae.decode(models.plain_vae.encode(others))
    assert metrics.two_sample_auc(remade, real) > 0.95
    assert 0.3 < metrics.two_sample_auc(others, real) < 0.7
