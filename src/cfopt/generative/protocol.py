"""What a generative model is: a map from contexts to codes, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral
from typing import Protocol, cast, runtime_checkable

import torch
from torch import Tensor

from cfopt.errors import InputError

#: By which fraction a repeated result may differ: deep networks in single precision round so much.
_ROUNDING = 1e-4


@runtime_checkable
class GenerativeModel(Protocol):
    """Codes of plausible contexts; anything with these three is one.

    Searches expect codes of about unit size, as under the prior N(0, I).

    `decode` must be differentiable, and each row's result independent of the other rows.

    A model may also say how undecided it is about what it shows, `ambiguity(z) -> (B, p)`, in the
    unit of squared contexts: see `TexturedVAE.ambiguity`. Plausible answers then avoid it.
    Where both share most of their work, `shown(z)` returns what `decode` and `ambiguity` do.

    One that is a density may state its logarithm, `log_density(x) -> (B,)`: see `Flow`. How usual
    contexts are is then read off that, since such a model reconstructs whatever it is given.

    One of images may declare the least and the greatest value of a pixel, `value_range`.

    One with long codes may name the directions in which contexts vary most,
    `broad_directions(count) -> (latent_dim, count)` with orthonormal columns: see `Elliptical`.
    Searches then move codes in these first.
    """

    latent_dim: int

    def encode(self, x: Tensor) -> Tensor:
        """The code of each context: `(B, ...) -> (B, latent_dim)`."""

    def decode(self, z: Tensor) -> Tensor:
        """The context of each code: `(B, latent_dim) -> (B, ...)`."""


def reconstruct(model: GenerativeModel, x: Tensor) -> Tensor:
    """What remains of contexts when they are encoded and decoded: `(B, ...) -> (B, ...)`."""
    return model.decode(model.encode(x))


def ambiguity(model: GenerativeModel, z: Tensor) -> Tensor | None:
    """How undecided a model is about what it shows: `(B, n) -> (B, p)`; None if it is silent."""
    asked: Callable[[Tensor], Tensor | None] | None = getattr(model, "ambiguity", None)
    return None if asked is None else asked(z)


def shown(model: GenerativeModel, z: Tensor) -> tuple[Tensor, Tensor | None]:
    """Contexts, and how undecided the model is about them: `decode` and `ambiguity` in one pass."""
    asked: Callable[[Tensor], tuple[Tensor, Tensor | None]] | None = getattr(model, "shown", None)
    return (model.decode(z), ambiguity(model, z)) if asked is None else asked(z)


def log_density(model: GenerativeModel, x: Tensor) -> Tensor | None:
    """The logarithm of a model's density at contexts: `(B, ...) -> (B,)`; None without one."""
    asked: Callable[[Tensor], Tensor | None] | None = getattr(model, "log_density", None)
    return None if asked is None else asked(x)


def broad_directions(model: GenerativeModel, count: int) -> Tensor | None:
    """The directions of codes in which contexts vary most: `(n, count)`; None if it names none."""
    asked: Callable[[int], Tensor | None] | None = getattr(model, "broad_directions", None)
    return None if asked is None else asked(count)


def value_range(model: GenerativeModel) -> tuple[float, float] | None:
    """The least and the greatest value of a model's contexts; None if it declares none."""
    declared = getattr(model, "value_range", None)
    if declared is None:
        return None
    try:
        least, most = map(float, declared)
    except (TypeError, ValueError):
        least = most = math.nan
    if not least < most:
        raise InputError(
            f"{type(model).__name__}.value_range needs to be two numbers, the lesser one first, "
            f"such as (0.0, 1.0); got {declared!r}."
        )
    return least, most


def check_attributes(model: object) -> GenerativeModel:
    """Raise InputError unless a model has what a generative model needs; returns it."""
    name = type(model).__name__
    # Not by isinstance: since Python 3.12 it overlooks an `encode` that is a submodule.
    missing = [n for n in ("encode", "decode", "latent_dim") if not hasattr(model, n)]
    if missing:
        raise InputError(
            "A generative model needs encode(x), decode(z) and latent_dim; "
            f"{name} lacks {' and '.join(missing)}."
        )
    known = cast(GenerativeModel, model)
    size = known.latent_dim
    if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
        raise InputError(f"{name}.latent_dim needs to be a whole number >= 1, got {size!r}.")
    return known


def check_generative(model: object, x: Tensor) -> None:
    """Raise InputError unless a model encodes contexts `(B, ...)` and decodes them again.

    It must return codes and contexts of the right shape and dtype, the same each time and for each
    row alone, and let gradients pass from a context to its code. Rows that are not finite are left
    to the caller.
    """
    known, name = check_attributes(model), type(model).__name__
    size = known.latent_dim
    encode, decode = _Method(name, "encode", known.encode), _Method(name, "decode", known.decode)
    with torch.no_grad():
        z = encode(x)
        _check_output(encode, z, (len(x), int(size)), None, "codes as latent_dim says")
        encode.check_repeatable(x, z)
    code = z.detach().clone().requires_grad_()
    with torch.enable_grad():
        decoded = decode(code)
    _check_output(decode, decoded, tuple(x.shape), x.dtype, "contexts as they were given")
    gradient = None
    if decoded.requires_grad:
        with torch.enable_grad():
            total = decoded.sum()
        (gradient,) = torch.autograd.grad(total, code, allow_unused=True)
    if gradient is None:
        raise InputError(
            f"{name}.decode needs a gradient with respect to the code; its output has none. Remove "
            "torch.no_grad, .detach() or NumPy from it."
        )
    with torch.no_grad():
        decode.check_repeatable(z, decoded.detach())


class _Method:
    """A method of the user's model, with its failures reported as such."""

    def __init__(self, owner: str, name: str, function: Callable[[Tensor], Tensor]) -> None:
        self.title, self._function = f"{owner}.{name}", function
        if not callable(function):
            raise InputError(f"{self.title} needs to be a method, got {type(function).__name__}.")

    def __call__(self, given: Tensor) -> Tensor:
        try:
            return self._function(given)
        # Any: it is the user's own code that runs here.
        except Exception as error:
            raise InputError(
                f"{self.title} fails on a batch of shape {tuple(given.shape)} in {given.dtype}: "
                f"{type(error).__name__}: {error}"
            ) from error

    def check_repeatable(self, given: Tensor, before: Tensor) -> None:
        """Raise InputError unless the same comes back again, and for the first row alone."""
        # Rounding is relative to the largest entries, from which deep networks make the small ones.
        usual = before[before.isfinite()].abs()
        slack = _ROUNDING * max(float(usual.max()) if len(usual) else 0.0, 0.1)
        for part in (given, given[:1]) if len(given) > 1 else (given,):
            if torch.allclose(
                self(part), before[: len(part)], rtol=_ROUNDING, atol=slack, equal_nan=True
            ):
                continue
            when = "each time" if part is given else "for a row alone as in a batch"
            raise InputError(
                f"{self.title} must return the same {when}; it does not. Return the mean rather "
                "than a sample, and put batch normalisation and dropout into eval mode."
            )


def _check_output(
    method: _Method, value: object, shape: tuple[int, ...], dtype: torch.dtype | None, what: str
) -> None:
    """Raise InputError unless a value has a shape and a dtype; None for any real one."""
    got = type(value).__name__
    if isinstance(value, Tensor):
        fits = value.is_floating_point() if dtype is None else value.dtype == dtype
        if fits and value.shape == shape:
            return
        got = f"{tuple(value.shape)} in {value.dtype}"
    need = "real numbers" if dtype is None else str(dtype)
    raise InputError(f"{method.title} must return {what}, {shape} in {need}; got {got}.")
