"""Generative models: codes of plausible contexts."""

from cfopt.generative.cost_aware import Terms, divergence, terms
from cfopt.generative.pca import PCA
from cfopt.generative.progress import ProgressBar
from cfopt.generative.protocol import GenerativeModel, check_generative, reconstruct
from cfopt.generative.published import load_published
from cfopt.generative.reports import Batch, Epoch
from cfopt.generative.tabular import TabularVAE
from cfopt.generative.training import Training, active_latents, train
from cfopt.generative.vae import VAE, CompactVAE, ConvolutionalVAE, Gaussian

__all__ = [
    "PCA",
    "VAE",
    "Batch",
    "CompactVAE",
    "ConvolutionalVAE",
    "Epoch",
    "Gaussian",
    "GenerativeModel",
    "ProgressBar",
    "TabularVAE",
    "Terms",
    "Training",
    "active_latents",
    "check_generative",
    "divergence",
    "load_published",
    "reconstruct",
    "terms",
    "train",
]
