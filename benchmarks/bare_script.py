"""What a user would write without `cfopt explain`: read, explain at once, write the same files."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import torch

import cfopt
from cfopt.fleet.table import to_table
from cfopt.predictors import linear
from cfopt.problems import GridShortestPath
from cfopt.report import write_report
from cfopt.storage import weights

#: As many as `cfopt explain` draws.
_PICTURES = 12


def main(folder: Path) -> None:
    contexts = torch.tensor(pd.read_csv(folder / "contexts.csv").to_numpy())
    wanted = torch.tensor(pd.read_csv(folder / "alternatives.csv").to_numpy())
    problem = GridShortestPath(5, 5)
    predictor = linear(contexts.shape[1], problem.num_costs).double()
    predictor.load_state_dict(weights.read(folder / "weights.safetensors")[0])
    start = time.perf_counter()
    e = cfopt.explain(contexts, cfopt.Pipeline(predictor, problem), cfopt.Absolute(wanted))
    seconds = time.perf_counter() - start
    pq.write_table(to_table(e, range(len(e))), folder / "bare.parquet", compression="zstd")
    e.to_json(folder / "bare.json")
    for row in range(0, len(e), -(-len(e) // _PICTURES)):
        e[row].plot(folder / f"bare-{row}.png")
    write_report(e, folder / "bare.html", title="Bare", seconds=seconds, settings={})
    print(seconds)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
