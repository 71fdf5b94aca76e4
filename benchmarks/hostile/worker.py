"""Some cases of a seed, a line of JSON for each: `python -m benchmarks.hostile.worker 0 50 50`."""

from __future__ import annotations

import faulthandler
import json
import resource
import sys
import time
import warnings

from benchmarks.hostile.cases import make_case
from benchmarks.hostile.judge import judged

#: CPU seconds of a case, after which the system ends the process.
_MOST = 180

if __name__ == "__main__":
    faulthandler.enable()
    warnings.simplefilter("ignore")
    seed, first, count = (int(given) for given in sys.argv[1:])
    for number in range(first, first + count):
        end = int(time.process_time()) + _MOST
        resource.setrlimit(resource.RLIMIT_CPU, (end, resource.RLIM_INFINITY))
        print(json.dumps(judged(make_case(seed, number))), flush=True)
