"""Codes of any model with mean 0 and covariance I, which a search moves along straight lines."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cfopt.errors import InputError
from cfopt.generative.protocol import GenerativeModel, ambiguity, check_attributes, shown

#: How many contexts are encoded at once.
_AT_ONCE = 256


class Whitened(nn.Module):
    """A generative model by codes w that have mean 0 and covariance I.

    Its own codes are `z = mean + w root`, with the symmetric root of the covariance of the data's
    codes: a unit of w is as usual in every direction, which plausibility and trust regions rely on,
    and each entry stays as near as it can be to where it was.

    That is the linear part of a prior such as `FlowPrior`. A flow also bends codes until they are
    distributed as N(0, I), so that samples look real, and norms of w vary more than they would. But
    a search needs no samples: it begins at a real context. It moves that in the directions in which
    contexts vary most, without the flow's passes, and straight lines lead to nearer answers than
    bent ones.

    Arguments:
        model: the generative model.
        mean: the mean of the data's codes, `(n,)`.
        root: the symmetric root of their covariance, `(n, n)`, of full rank.
    """

    mean: Tensor
    root: Tensor
    inverse: Tensor
    _broadest: Tensor

    def __init__(self, model: GenerativeModel, mean: Tensor, root: Tensor) -> None:
        super().__init__()
        self.model = check_attributes(model)
        self.latent_dim = size = int(model.latent_dim)
        if mean.shape != (size,) or root.shape != (size, size):
            raise InputError(
                f"Whitened needs a mean of shape ({size},) and a root of shape ({size}, {size}), "
                f"as the model's codes have; got {tuple(mean.shape)} and {tuple(root.shape)}."
            )
        exact = root.detach().double().cpu()
        spreads, vectors = torch.linalg.eigh((exact + exact.T) / 2)
        # What does not vary at all would be divided by nothing; NaN is not above anything.
        if not bool(spreads[0] > 1e-7 * spreads[-1]):
            raise InputError(
                f"Whitened needs codes that vary in all {size} directions; their standard "
                f"deviations are {float(spreads[0]):.3g} to {float(spreads[-1]):.3g}. Pass more "
                "contexts, or a model with fewer codes."
            )
        inverse = (vectors / spreads) @ vectors.T
        for name, value in {
            "mean": mean.detach(),
            "root": exact,
            "inverse": inverse,
            "_broadest": vectors.flip(1),
        }.items():
            self.register_buffer(name, value.to(mean).clone(), persistent=False)
        shape = getattr(model, "context_shape", None)
        if shape is not None:
            self.context_shape = tuple(shape)

    @classmethod
    @torch.no_grad()
    def fit(cls, model: GenerativeModel, contexts: Tensor) -> Whitened:
        """By the codes of known contexts, `(N, ...)`, many more than a code has entries."""
        check_attributes(model)
        if len(contexts) <= model.latent_dim:
            raise InputError(
                f"Whitened.fit needs more contexts than a code has entries, {model.latent_dim}; "
                f"got {len(contexts)}."
            )
        codes = torch.cat([model.encode(part) for part in torch.split(contexts, _AT_ONCE)])
        variances, vectors = torch.linalg.eigh(torch.cov(codes.double().T))
        root = (vectors * variances.clamp(min=0).sqrt()) @ vectors.T
        return cls(model, codes.double().mean(0).to(codes), root)

    @property
    def usual_errors(self) -> Tensor | None:
        """Reconstruction errors of held-out contexts, if the model knows them: `(q,)`."""
        usual: Tensor | None = getattr(self.model, "usual_errors", None)
        return usual

    def encode(self, x: Tensor) -> Tensor:
        """The code of each context: `(B, ...) -> (B, n)`."""
        return (self.model.encode(x) - self.mean) @ self.inverse

    def decode(self, z: Tensor) -> Tensor:
        """The context of each code: `(B, n) -> (B, ...)`."""
        return self.model.decode(self._own(z))

    def ambiguity(self, z: Tensor) -> Tensor | None:
        """How undecided the model is: `(B, n) -> (B, p)`."""
        return ambiguity(self.model, self._own(z))

    def shown(self, z: Tensor) -> tuple[Tensor, Tensor | None]:
        """`decode` and `ambiguity` in one pass."""
        return shown(self.model, self._own(z))

    def broad_directions(self, count: int) -> Tensor:
        """The directions in which contexts vary most: `(n, count)`, orthonormal columns."""
        return self._broadest[:, :count]

    def _own(self, z: Tensor) -> Tensor:
        """The model's own codes: `(B, n) -> (B, n)`."""
        return self.mean + z @ self.root
