"""Confirmations of predictions that are true, in all figures that a sweep predicts.

`python -m tests.reports.confirm_trials [TRIALS]` prints the table of docs/internals/statistics.md.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter

import numpy as np

from reports.figures.compare.confirm import CONFIRMED, confirm, exit_code
from reports.figures.statistics.variance import interval
from reports.figures.sweep.observations import MEASURES
from runlog.records.sweep import PredictedFigure
from tests.reports.sweep_facts import predicted_figures

SETTINGS = (  # scatter of one repetition, repetitions of sweep and confirmation, clusters of the sweep
    (0.03, 4, 1),
    (0.1, 4, 1),
    (0.2, 4, 1),
    (0.1, 2, 1),
    (0.03, 4, 4),
    (0.1, 4, 4),
    (0.1, 4, 8),
)


def confirmed(seed: str, *, scatter: float, repetitions: int, forks: int) -> tuple[int, float]:
    """Exit code, and the share of figures that were confirmed. A sweep on several clusters predicts one more of them;
    a cluster's shift is as large as the scatter of one repetition."""
    rng = random.Random(seed)
    predicted: dict[str, PredictedFigure] = {}
    measured: dict[str, list[float]] = {}
    for measure in MEASURES:
        if forks == 1:
            logs = [rng.gauss(0, scatter) for _ in range(repetitions)]
            error = float(np.std(logs, ddof=1)) / math.sqrt(repetitions)
        else:
            logs = [rng.gauss(0, scatter) + rng.gauss(0, scatter / math.sqrt(repetitions)) for _ in range(forks)]
            error = float(np.std(logs, ddof=1)) * math.sqrt(1 + 1 / forks)
        own = interval(float(np.mean(logs)), error, len(logs) - 1)
        value, low, high = (figure * measure.scale for figure in own.ratio)
        document = {"value": value, "low": low, "high": high, "df": own.df, "forks": forks, "rounds": repetitions}
        predicted |= predicted_figures({measure.name: document})
        shift = rng.gauss(0, scatter) if forks > 1 else 0.0
        measured[measure.name] = [math.exp(shift + rng.gauss(0, scatter)) for _ in range(repetitions)]
    found = confirm(predicted, measured)
    return exit_code(found), sum(each.result == CONFIRMED for each in found) / len(found)


def main(count: int = 2_000) -> None:
    print("scatter  repetitions  clusters  exit 1  exit 4  exit 0  figures confirmed")
    for scatter, repetitions, forks in SETTINGS:
        own = [
            confirmed(
                f"{scatter}/{repetitions}/{forks}/{number}", scatter=scatter, repetitions=repetitions, forks=forks
            )
            for number in range(count)
        ]
        codes = Counter(code for code, _ in own)
        shares = "  ".join(f"{codes[code] / count:6.1%}" for code in (1, 4, 0))
        confirmed_share = sum(share for _, share in own) / count
        print(f"{scatter:7.0%}  {repetitions:11}  {forks:8}  {shares}  {confirmed_share:17.1%}", flush=True)


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
