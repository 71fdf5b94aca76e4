"""The shipped terrain models, and the metrics of plausibility."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import cfopt
from cfopt import metrics
from cfopt.datasets import Terrain
from cfopt.errors import InputError
from cfopt.models import terrain
from cfopt.models.terrain import FOLDER, TEST_SEED, load_terrain


@pytest.fixture(scope="module")
def models() -> cfopt.TerrainModels:
    return load_terrain(40)


def test_the_shipped_files_fit_into_12_megabytes() -> None:
    sizes = [path.stat().st_size for path in FOLDER.iterdir()]
    assert sum(sizes) < 12_000_000
    assert {path.name for path in FOLDER.glob("*.safetensors")} == {
        terrain.PREDICTOR,
        *terrain.VAES.values(),
    }


def test_what_is_loaded_fits_together(models: cfopt.TerrainModels) -> None:
    assert models.maps.shape == (40, 3, 96, 96)
    assert 0 <= models.maps.min() < models.maps.max() <= 1
    assert models.costs.shape == (40, 144)
    fresh = Terrain().generate(40, seed=TEST_SEED)
    assert torch.equal(models.maps, fresh.contexts())
    assert torch.equal(models.costs, fresh.costs)
    for vae in (models.generative, models.plain_vae):
        assert vae.latent_dim == 64
        assert not vae.training
        assert vae(models.maps).shape == models.maps.shape


def test_the_predictor_knows_the_costs_and_the_aware_vae_keeps_the_paths(
    models: cfopt.TerrainModels,
) -> None:
    pipeline = models.pipeline
    error = (pipeline.costs(models.maps) - models.costs).abs().mean()
    assert error < 0.3
    best = pipeline.problem.solve(models.costs)
    regret = metrics.relative_regret(pipeline.problem, pipeline.decide(models.maps), models.costs)
    assert regret.mean() < 0.02
    assert pipeline.regret(models.maps, best).mean() < 0.02
    plain, aware = (
        metrics.decision_focused_error(models.maps, pipeline, vae).mean()
        for vae in (models.plain_vae, models.generative)
    )
    assert aware < 0.75 * plain


def test_metrics_are_what_their_formulas_say(models: cfopt.TerrainModels) -> None:
    x, pipeline, vae = models.maps[:5], models.pipeline, models.generative
    remade = vae.decode(vae.encode(x)).detach()
    error = metrics.reconstruction_error(x, vae)
    assert torch.allclose(error, ((x - remade) ** 2).sum(dim=(1, 2, 3)), rtol=1e-4)
    costs = pipeline.costs(remade).double()
    decided, best = pipeline.decide(x).double(), pipeline.decide(remade).double()
    value = (costs * best).sum(1)
    expected = ((costs * decided).sum(1) - value) / value.abs()
    found = metrics.decision_focused_error(x, pipeline, vae)
    assert torch.allclose(found, expected.detach(), atol=1e-6)


def test_a_map_is_explained_plausibly(models: cfopt.TerrainModels) -> None:
    x0, donors = models.maps[:3], models.maps[20:23]
    criterion = cfopt.Absolute(models.pipeline.decide(donors))
    e = cfopt.explain(
        x0,
        models.pipeline,
        criterion,
        generative=models.generative,
        plausibility=cfopt.Sphere(10.0),
        reference=donors,
    )
    assert e.valid.all()
    assert torch.allclose(models.generative.decode(e.z), e.x, atol=1e-5)
    deviation = metrics.latent_norm_deviation(e)
    radius = math.sqrt(2) * math.exp(math.lgamma(32.5) - math.lgamma(32))
    assert torch.allclose(deviation, (e.z.norm(dim=1) - radius).abs(), atol=1e-5)
    assert torch.equal(metrics.explanation_loss(e), e.loss)
    naive = cfopt.explain(x0, models.pipeline, criterion, search=cfopt.MDMM())
    assert naive.valid.all()
    assert naive.distance.max() < e.distance.min()
    judged = [
        metrics.decision_focused_error(x.x, models.pipeline, models.generative).mean()
        for x in (e, naive)
    ]
    assert judged[0] < judged[1]


def test_bytes_with_channels_last_are_read_as_the_same_maps(models: cfopt.TerrainModels) -> None:
    maps = Terrain().generate(2, seed=TEST_SEED)
    search = cfopt.MDMM(max_steps=2)
    options = {"search": search, "generative": models.generative}
    epsilon = cfopt.Epsilon(0.1)
    given = maps.images.permute(0, 2, 3, 1).numpy()
    e = cfopt.explain(given, models.pipeline, epsilon, **options)
    expected = cfopt.explain(maps.contexts(), models.pipeline, epsilon, **options)
    assert torch.equal(e.x0, expected.x0)
    assert torch.allclose(e.x, expected.x)


def test_images_that_do_not_fit_are_refused_with_a_remedy(models: cfopt.TerrainModels) -> None:
    options = {"generative": models.generative}
    for x, message in (
        (255 * models.maps[:1], "255"),
        (models.maps[:1, :, :80, :80], "144"),
        (models.maps[:1, :, :90, :90], "11 x 11 = 121 cells"),
    ):
        with pytest.raises(InputError, match=message):
            cfopt.explain(x, models.pipeline, cfopt.Epsilon(0.1), **options)


def test_a_vae_of_another_latent_size_or_image_size_is_refused(
    models: cfopt.TerrainModels,
) -> None:
    from cfopt.generative import CompactVAE

    other = CompactVAE(latent_dim=16, rows=6, cols=6)
    with pytest.raises(InputError, match=r"\(3, 48, 48\)"):
        cfopt.explain(models.maps[:1], models.pipeline, cfopt.Epsilon(0.1), generative=other)
    mistaken = CompactVAE(latent_dim=16)
    mistaken.latent_dim = 64
    with pytest.raises(InputError, match="latent_dim"):
        cfopt.explain(models.maps[:1], models.pipeline, cfopt.Epsilon(0.1), generative=mistaken)


def test_damaged_or_foreign_weights_are_named(tmp_path: Path) -> None:
    for path in FOLDER.iterdir():
        shutil.copy(path, tmp_path)
    broken = tmp_path / terrain.PREDICTOR
    broken.write_bytes(broken.read_bytes()[:1000])
    with pytest.raises(InputError, match=terrain.PREDICTOR):
        load_terrain(1, tmp_path)
    shutil.copy(FOLDER / terrain.VAES[0.0], broken)  # whole, but a VAE
    with pytest.raises(InputError, match=r"cnn.safetensors.*CompactVAE"):
        load_terrain(1, tmp_path)
    save_file(load_file(FOLDER / terrain.PREDICTOR), broken)  # without a word about its origin
    with pytest.raises(InputError, match="unknown origin"):
        load_terrain(1, tmp_path)
