"""The public names of the package."""

from cfopt import metrics, problems
from cfopt.affine import Affine
from cfopt.certificate import Certificate, Clash
from cfopt.errors import CfoptError, InputError, MissingExtraError, PredictorError, SolverError
from cfopt.explain import explain
from cfopt.explanation import Explanation
from cfopt.features import Features, LinearLimit
from cfopt.generative import GenerativeModel
from cfopt.models import TerrainModels, load_terrain
from cfopt.pipeline import Pipeline
from cfopt.plausibility import LogLikelihood, Plausibility, Sphere
from cfopt.problems import Problem
from cfopt.proximity import L1, L2, Latent, Proximity
from cfopt.question import Absolute, Contrastive, Criterion, Epsilon, Question, Relative
from cfopt.search import (
    MDMM,
    Auto,
    ClosedForm,
    Counting,
    CuttingPlane,
    Enumeration,
    LatentSequential,
    Search,
    Sequential,
    Tangents,
)
from cfopt.task import Task
from cfopt.types import Moving, Points, Progress, Quantifier, Sense, Status

__all__ = [
    "L1",
    "L2",
    "MDMM",
    "Absolute",
    "Affine",
    "Auto",
    "Certificate",
    "CfoptError",
    "Clash",
    "ClosedForm",
    "Contrastive",
    "Counting",
    "Criterion",
    "CuttingPlane",
    "Enumeration",
    "Epsilon",
    "Explanation",
    "Features",
    "GenerativeModel",
    "InputError",
    "Latent",
    "LatentSequential",
    "LinearLimit",
    "LogLikelihood",
    "MissingExtraError",
    "Moving",
    "Pipeline",
    "Plausibility",
    "Points",
    "PredictorError",
    "Problem",
    "Progress",
    "Proximity",
    "Quantifier",
    "Question",
    "Relative",
    "Search",
    "Sense",
    "Sequential",
    "SolverError",
    "Sphere",
    "Status",
    "Tangents",
    "Task",
    "TerrainModels",
    "explain",
    "load_terrain",
    "metrics",
    "problems",
]
