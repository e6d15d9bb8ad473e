"""The runs of an A/A check: measured, analysed, compared. Whatever is there already is not done again.

Measuring is the product as users run it: `harness run`, with its own cluster and load. The analyses follow one after
the other, five in each Spark session: it is the same job that `harness report` starts, without a JVM for each run.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.cli.results.compare import compare_runs
from reports.job import Lent, Request, carry_out
from reports.read.session import Session
from reports.render.publication import new_analysis_id
from runlog.files.documents import read_json
from runlog.records.documents import read_run_record
from runlog.records.run import RunStatus

RUN_TIMEOUT_S: Final = 3_600.0
RELEVANT: Final = 0.05  # the default of `harness compare`
NEVER_ACTS: Final = "retry.backoff.ms"  # A producer that is never refused does not use it. So its values are equal.
_MEASURED: Final = (0, 4)  # exit codes of a run whose cells were carried out; 4: a cell could not be
_RUNS_A_SESSION: Final = 5  # after nine, the code cache of the JVM was full, and it compiled no more
_MASTER: Final = "local[2]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """`suite` by name or file. Its configurations that differ only in NEVER_ACTS are equal."""

    name: str
    suite: str
    overrides: tuple[str, ...]
    about: str


CHECKS: Final = {
    check.name: check
    for check in (
        Check(
            name="demo",
            suite="demo",
            overrides=("chaos=[]", f"sweep.baseline.{NEVER_ACTS}=100", f"sweep.vary.{NEVER_ACTS}=[101, 102]"),
            about="the demo's sweep, without its chaos cells and with two more configurations that equal its baseline",
        ),
        Check(
            name="equals",
            suite=str(Path(__file__).parent / "same_suite.yaml"),
            overrides=(),
            about="four configurations that are equal, four rounds, with ceilings",
        ),
    )
}


def make_runs(check: Check, directory: Path, *, runs: int, ends_s: float) -> list[Path]:
    """The measured runs, in order; none begins after `ends_s` of the monotonic clock. RuntimeError if one failed."""
    done: list[Path] = []
    for number in range(1, runs + 1):
        run = directory / check.name / f"run-{number:02d}"
        if not is_measured(run):
            if time.monotonic() > ends_s:
                break
            shutil.rmtree(run, ignore_errors=True)  # An attempt that was ended left it.
            run.parent.mkdir(parents=True, exist_ok=True)
            overrides = itertools.chain.from_iterable(("--set", one) for one in check.overrides)
            options = ["--run-dir", str(run), "--seed", str(number), "--no-report", *overrides]
            _harness(["run", check.suite, *options], timeout_s=RUN_TIMEOUT_S)
            print(f"{check.name}/{run.name}: measured", flush=True)
        done.append(run)
    return done


def is_measured(run: Path) -> bool:
    """Whether the run came to its end."""
    return (run / "manifest.json").exists() and read_run_record(run).status is RunStatus.FINISHED


def _harness(arguments: Sequence[str], *, timeout_s: float) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "harness", *arguments], capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if done.returncode not in _MEASURED:
        raise RuntimeError(f"harness {shlex.join(arguments)} ended with {done.returncode}: {done.stderr[-2_000:]}")


def analyse_all(runs: Sequence[Path], *, again: bool) -> None:
    """`again`: those too that have results, because the code that made them has changed."""
    left = [run for run in runs if again or not (run / "results" / "sweep.json").exists()]
    for begin in range(0, len(left), _RUNS_A_SESSION):
        with Session(master=_MASTER, small=True) as spark:
            for run in left[begin : begin + _RUNS_A_SESSION]:
                request = Request(run_dir=run, master=_MASTER, allow=None, analysis_id=new_analysis_id())
                carry_out(request, session=Lent(spark))


def compare_all(runs: Sequence[Path]) -> list[dict[str, Any]]:
    """What `harness compare` says of every two runs, the earlier one as BASE."""
    found = []
    for base, new in itertools.combinations(runs, 2):
        with contextlib.redirect_stdout(io.StringIO()):
            compare_runs(base, new, force=False, relevant=RELEVANT)
        found.append(read_json(new / "results" / f"compare-{base.name}.json"))
    return found
