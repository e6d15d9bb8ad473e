"""Which setting has the lowest p99? `python with_pandas.py RUN_DIR`; results/cells.csv has settings and repetitions."""

import sys
from pathlib import Path

import pandas as pd

cells = pd.read_csv(Path(sys.argv[1]) / "results" / "cells.csv")
swept = cells[cells["kind"] == "sweep"] if (cells["kind"] == "sweep").any() else cells
settings = [name for name in swept if name.startswith("setting.") and swept[name].nunique(dropna=False) > 1]
by = settings or ["cell_id"]
print(
    swept.assign(p99_ms=swept["corrected_p99_us"] / 1000)
    .groupby(by, dropna=False)["p99_ms"]
    .agg(["mean", "std", "count"])
    .sort_values("mean")
)
