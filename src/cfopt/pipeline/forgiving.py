"""A predictor that need not answer everywhere."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cfopt.errors import CfoptError, in_words
from cfopt.pipeline.adapted import Predictor


class Forgiving(nn.Module):
    """The costs of contexts, NaN for those on which a predictor raises an exception.

    A search that looks at many points may leave what a model was made for, such as numbers whose
    logarithm it takes. Half of the contexts at a time are asked again, to find which are to blame.

    Arguments:
        predictor: `(B, ...) -> (B, n)`.
        num_costs: n.

    Attributes:
        error: what the predictor said last, or "".
    """

    def __init__(self, predictor: Predictor, num_costs: int) -> None:
        super().__init__()
        self.predictor, self.num_costs, self.error = predictor, num_costs, ""

    def forward(self, x: Tensor) -> Tensor:
        """The costs, `(B, ...) -> (B, n)`."""
        try:
            return self.predictor(x)
        except CfoptError:  # it says itself what is wrong, whatever the contexts
            raise
        # Any: the predictor is the caller's.
        except Exception as error:
            if len(x) > 1:
                middle = len(x) // 2
                return torch.cat([self(x[:middle]), self(x[middle:])])
            self.error = in_words(error)
            return x.new_full((1, self.num_costs), torch.nan)
