"""Processes that share the jobs of a study, each with one thread."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import torch

from cfopt_paper.job import Job
from cfopt_paper.scale import Scale
from cfopt_paper.study import Study

#: The study of this process, if it is one of a crew.
_studies: list[Study] = []


@contextmanager
def crew(study: Study, workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that know a study; what has not begun is given up when the block ends early.

    Arguments:
        study: the study, which every process opens for itself.
        workers: the number of processes.
    """
    # Not forked: threads of PyTorch do not survive that.
    context = multiprocessing.get_context("spawn")
    about = (study.folder, study.scale, study.seed, study.data)
    pool = ProcessPoolExecutor(workers, context, _join, about)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _join(folder: Path, scale: Scale, seed: int, data: Path | None) -> None:
    torch.set_num_threads(1)
    _studies.append(Study(folder, scale, seed, data))


def do_job(job: Job) -> float:
    """Do a job of the crew's study, and return the seconds that it took."""
    start = time.perf_counter()
    _studies[-1].do(job)
    return time.perf_counter() - start
