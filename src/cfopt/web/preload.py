"""What workers have in common, loaded once: they are forked from a process that imported this.

So a new worker is there at once when another had to be killed, and all of them share the memory of
models and libraries. The user's own code is not among it: each worker loads that for itself.
"""

from __future__ import annotations

import gc
import os

# Before the libraries that read them. Problems are small here, so that threads would only wait for
# each other; and a process with threads should not be forked. Pictures go to files.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MPLBACKEND"] = "agg"

import matplotlib.pyplot  # noqa: F401
import torch

from cfopt.web.limits import Limits
from cfopt.web.served import load_served
from cfopt.web.work import Work  # noqa: F401

torch.set_num_threads(1)
load_served(None, trusted=False, pixels=Limits().pixels)
# What is here stays: a worker that looked through it for garbage would copy it all.
gc.freeze()
