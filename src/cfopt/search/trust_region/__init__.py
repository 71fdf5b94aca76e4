"""Trust-region searches: one climb, over models of tasks among contexts or among codes."""

from cfopt.search.trust_region.latent_reference import LatentReference
from cfopt.search.trust_region.latent_sequential import LatentSequential
from cfopt.search.trust_region.sequential import Sequential

__all__ = ["LatentReference", "LatentSequential", "Sequential"]
