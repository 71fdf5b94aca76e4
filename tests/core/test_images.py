"""Images in the forms that people have them: converted where that is safe, refused where not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import cfopt
from cfopt.datasets import Terrain
from cfopt.errors import InputError, PredictorError
from cfopt.pipeline.contexts import Contexts, check_predictor
from cfopt.pipeline.images import as_floats, channels_last
from cfopt.predictors import CompactCNN, PartialResNet
from cfopt.problems import TerrainShortestPath


def _pipeline(rows: int = 3, cols: int = 4, **more: object) -> cfopt.Pipeline:
    torch.manual_seed(0)
    return cfopt.Pipeline(CompactCNN(**more), TerrainShortestPath(rows, cols))


def _plain(channels: int = 3) -> cfopt.Pipeline:
    """A predictor of the user's own that declares nothing of its images."""
    layers = nn.Sequential(nn.Conv2d(channels, 1, 8, 8), nn.Flatten(), nn.Softplus())
    return cfopt.Pipeline(layers, TerrainShortestPath(3, 4))


@pytest.fixture(scope="module")
def images() -> Tensor:
    """Bytes, channels first, of 3 x 4 cells: `(5, 3, 24, 32)`."""
    return Terrain(3, 4).generate(5).images


def _read(given: object, pipeline: cfopt.Pipeline, **more: object) -> Tensor:
    return Contexts.of(given, pipeline, None, **more).x


def test_every_form_of_the_same_images_is_read_alike(images: Tensor) -> None:
    expected = torch.from_numpy(images.numpy().astype(np.float64) / 255).float()
    last = images.permute(0, 2, 3, 1)
    photos = [Image.fromarray(image.numpy()) for image in last]
    forms = [
        images,
        last,
        images.numpy(),
        last.numpy(),
        photos,
        list(images.numpy()),
        expected,
        expected.permute(0, 2, 3, 1),
        expected.numpy(),
        expected.permute(0, 2, 3, 1).numpy(),
    ]
    for pipeline in (_pipeline(), cfopt.Pipeline(PartialResNet(3, 4), TerrainShortestPath(3, 4))):
        for form in forms:
            x = _read(form, pipeline)
            assert x.dtype == torch.float32
            assert x.is_contiguous()
            assert torch.allclose(x, expected, atol=1e-7, rtol=0)
        for one in (images[2], last[2], last[2].numpy(), photos[2], expected[2]):
            assert torch.allclose(_read(one, pipeline), expected[2:3], atol=1e-7, rtol=0)


def test_bytes_become_floats_in_the_precision_of_the_predictor(images: Tensor) -> None:
    pipeline = _pipeline()
    pipeline.predictor.double()
    x = _read(images, pipeline)
    assert x.dtype == torch.float64
    assert np.array_equal(x.numpy(), images.numpy() / 255)


def test_bytes_are_images_for_any_predictor_and_other_floats_stay_as_they_are(
    images: Tensor,
) -> None:
    last = images.permute(0, 2, 3, 1)
    assert torch.equal(_read(last, _plain()), as_floats(images))
    floats = as_floats(last) * 40 - 20
    assert torch.equal(_read(floats, _plain()), floats)


def test_bytes_in_vectors_are_numbers_and_not_scaled(grid: cfopt.Pipeline) -> None:
    given = torch.tensor([[0, 1, 2, 250]], dtype=torch.uint8)
    for form in (given, given.numpy(), given[0]):
        assert _read(form, grid).tolist() == [[0.0, 1.0, 2.0, 250.0]]


def test_what_the_caller_gave_is_left_alone(images: Tensor) -> None:
    for form in (images.clone(), as_floats(images)):
        before = form.clone()
        x = _read(form, _pipeline())
        x.zero_()
        assert torch.equal(form, before)


def test_an_explanation_of_bytes_is_that_of_floats(images: Tensor) -> None:
    pipeline = _pipeline()
    search = cfopt.MDMM(step=0.01, max_steps=4)
    floats = as_floats(images)
    forms = (images, images.permute(0, 2, 3, 1).numpy(), floats)
    found = [cfopt.explain(x, pipeline, cfopt.Epsilon(0.05), search=search) for x in forms]
    assert all(torch.equal(e.x, found[-1].x) for e in found)
    assert found[0].x.shape == floats.shape


@pytest.mark.parametrize(
    ("shape", "last"),
    [
        ((2, 3, 8, 12), False),
        ((2, 8, 12, 3), True),
        ((2, 3, 8, 3), None),
        ((2, 1, 8, 12), False),
        ((2, 8, 3, 12), False),
    ],
)
def test_channels_are_where_the_three_is(shape: tuple[int, ...], last: bool | None) -> None:
    assert channels_last(torch.zeros(shape)) is last


def test_a_declared_shape_tells_where_the_channels_are() -> None:
    narrow = torch.zeros(2, 3, 8, 3)
    assert channels_last(narrow, (3, 8, 3)) is False
    assert channels_last(narrow, (3, 3, 8)) is True
    assert channels_last(narrow, (3, 5, 5)) is None


def test_bytes_whose_channels_cannot_be_told_are_refused_unless_a_shape_is_known() -> None:
    narrow = torch.arange(2 * 3 * 8 * 3, dtype=torch.uint8).reshape(2, 3, 8, 3)
    pipeline = _plain()
    with pytest.raises(InputError, match=r"\(2, 3, 8, 3\) may have them first or last. Pass"):
        _read(narrow, pipeline)
    first, last = as_floats(narrow), as_floats(narrow).permute(0, 3, 1, 2)
    assert torch.equal(_read(first, pipeline), first)  # the remedy that the message names
    assert torch.equal(_read(narrow, pipeline, shape=(3, 8, 3)), first)
    assert torch.equal(_read(narrow, pipeline, shape=(3, 3, 8)), last)
    pipeline.predictor.context_shape = (3, 3, 8)
    assert torch.equal(_read(narrow, pipeline), last)


def test_reference_images_may_have_another_form_than_the_contexts(images: Tensor) -> None:
    pipeline = _pipeline()
    contexts = Contexts.of(images[:2], pipeline, None)
    _, x = contexts.beside(images[2:].permute(0, 2, 3, 1).numpy(), pipeline)
    assert torch.equal(x, as_floats(images[2:]))
    with pytest.raises(InputError, match=r"reference needs contexts of shape \(3, 24, 32\)"):
        contexts.beside(images[2:, :, :16], pipeline)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: 255 * x, r"pixels from 0 to 1, got values from .* Divide them by 255"),
        (lambda x: (255 * x).long(), "Divide them by 255"),
        (lambda x: 2 * x - 1, r"got values from -.* undo any standardisation"),
        (lambda x: x + 0.2 - x.min(), r"got values from 0.2 to 1\..* Rescale them"),
    ],
)
def test_pixels_out_of_range_are_refused_with_the_remedy(change, message: str) -> None:
    floats = torch.linspace(0, 1, 3 * 24 * 32).reshape(1, 3, 24, 32)
    for predictor in (CompactCNN(), PartialResNet(3, 4)):
        pipeline = cfopt.Pipeline(predictor, TerrainShortestPath(3, 4))
        with pytest.raises(InputError, match=f"{type(predictor).__name__} needs.*{message}"):
            _read(change(floats), pipeline)


def test_pixels_may_leave_their_range_by_rounding() -> None:
    floats = torch.linspace(-0.009, 1.009, 3 * 24 * 32).reshape(1, 3, 24, 32)
    assert torch.equal(_read(floats, _pipeline()), floats)


def test_an_image_with_a_pixel_that_is_not_finite_is_rejected_alone(images: Tensor) -> None:
    x0 = as_floats(images)
    x0[1, 0, 3, 4], x0[3, 2, 0, 0] = torch.nan, torch.inf
    search = cfopt.MDMM(max_steps=2)
    e = cfopt.explain(x0, _pipeline(), cfopt.Epsilon(0.05), search=search)
    assert [status == "rejected" for status in e.status] == [False, True, False, True, False]
    assert "not finite" in e.message[1]
    assert e.costs.isfinite().all(1).tolist() == [True, False, True, False, True]
    with pytest.raises(InputError, match="Divide them by 255"):
        _read(255 * x0, _pipeline())


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((100, 100), "multiples of 8, the pixels of a cell; got 100 x 100"),
        ((80, 80), "needs 144 costs.* 80 x 80 pixels have 10 x 10 = 100 cells of 8 pixels"),
        ((192, 192), "needs 144 costs.* 24 x 24 = 576 cells of 8 pixels"),
    ],
)
def test_images_of_a_size_that_does_not_fit_are_refused(
    shape: tuple[int, int], message: str
) -> None:
    pipeline = _pipeline(12, 12)
    with pytest.raises(InputError, match=message):
        cfopt.explain(torch.rand(2, 3, *shape), pipeline, cfopt.Epsilon(0.1))


def test_images_without_three_channels_are_refused() -> None:
    for shape in ((2, 1, 24, 32), (2, 24, 32, 4)):
        with pytest.raises(InputError, match=r"shape \(rows, 3, height, width\), got"):
            check_predictor(torch.rand(shape), _pipeline())
    with pytest.raises(PredictorError, match="fails on contexts of shape"):
        check_predictor(torch.rand(2, 5, 24, 32), _plain())


def test_a_predictor_for_another_map_is_refused() -> None:
    pipeline = cfopt.Pipeline(PartialResNet(5, 5), TerrainShortestPath(3, 4))
    with pytest.raises(PredictorError, match=r"costs of shape \(2, 12\).*got \(2, 25\)"):
        check_predictor(torch.rand(2, 3, 24, 32), pipeline)
