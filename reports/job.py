"""One analysis from a run directory to its published results. Owns the order of things and no decision.

Shown by tests/reports/test_reports_command.py.
"""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reports.allowances import Allowances, read_allowances
from reports.model import Cell, CellFacts, Run
from reports.publication import PAGE, Publication
from reports.rundir import read_run
from reports.spark_needs import SparkUnavailableError, require_what_it_takes
from runlog.redaction import hidden_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reports.outputs import Judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    run_dir: Path
    master: str
    allow: Path | None
    analysis_id: str


def carry_out(request: Request) -> int:
    allowances = Allowances(read_allowances(request.allow) if request.allow else ())
    run = replace(read_run(request.run_dir), analysis_id=request.analysis_id)
    require_what_it_takes(request.master)
    with Publication(Path(run.directory), request.analysis_id) as publication:
        code = _analyse(request, run, allowances, publication.aside)
        publication.publish()
    print(Path(run.directory) / PAGE)
    return code


def _analyse(request: Request, run: Run, allowances: Allowances, into: Path) -> int:
    """Writes all results into the directory `into`; the exit code that the verdict has."""
    # Imported late, so that a usage error answers at once.
    from reports.analyse import analyse
    from reports.outputs import exit_code
    from reports.session import SMALL_RUN_BYTES, Session, parquet_bytes
    from reports.tolerant import facts_of_all

    started = time.monotonic()
    _say(f"{len(run.cells)} cells, Spark on {hidden_text(request.master)}")
    small = parquet_bytes(request.run_dir) < SMALL_RUN_BYTES
    with Session(master=request.master, small=small) as spark:

        def of_cells(cells: Sequence[Cell]) -> list[CellFacts]:
            try:
                return analyse(spark, replace(run, cells=tuple(cells)))
            except Exception as error:
                if not is_answering(spark, request.master):
                    where = hidden_text(request.master)
                    raise SparkUnavailableError(f"Spark on {where} ended: {_first_line(error)}") from error
                raise

        facts = facts_of_all(run.cells, of_cells)
    _say(f"analysed after {time.monotonic() - started:.1f} s")
    judged = [_judged(item, allowances) for item in facts]
    run = replace(run, notes=(*run.notes, *allowances.notes()))
    judged = _write(run, judged, into)
    _say(f"page written after {time.monotonic() - started:.1f} s")
    return exit_code(judged, run.problems)


def is_answering(spark: SparkSession, master: str) -> bool:
    """Whether the session still does what is asked: else no cell is to blame for anything."""
    from reports.spark_bounds import bounded, timeout_s_of

    try:
        with bounded("asking Spark whether it is still there", timeout_s_of(master)):
            return spark.range(1).count() == 1
    except Exception:  # of any family: it does not answer
        return False


def _judged(facts: CellFacts, allowances: Allowances) -> Judged:
    """A cell whose document makes a rule stumble is inconclusive, and says so."""
    from reports.outputs import Judged
    from reports.verdict import judge

    try:
        return Judged(facts=facts, verdict=allowances.apply(facts.cell.cell_id, judge(facts)))
    except Exception as error:
        return _unusable(facts, error)


def _unusable(facts: CellFacts, error: Exception) -> Judged:
    from reports.outputs import Judged
    from reports.tolerant import unusable
    from reports.verdict import judge

    traceback.print_exc()
    nothing = unusable(facts.cell, f"what it recorded cannot be judged or shown: {_first_line(error)}")
    return Judged(facts=nothing, verdict=judge(nothing))


def _write(run: Run, judged: list[Judged], into: Path) -> list[Judged]:
    """All results; cells that alone cannot be written are replaced by what can be said of them."""
    try:
        _write_all(run, judged, into)
        return judged
    except OSError:
        raise
    except Exception as error:
        _say(f"the results could not be written ({_first_line(error)}); each cell is tried alone")
    sound: list[Judged] = []
    for item in judged:
        with tempfile.TemporaryDirectory(dir=into, prefix="alone-") as alone:
            try:
                _write_all(run, [item], Path(alone))
                sound.append(item)
            except OSError:
                raise
            except Exception as error:
                sound.append(_unusable(item.facts, error))
    _write_all(run, sound, into)
    return sound


def _write_all(run: Run, judged: list[Judged], into: Path) -> None:
    from reports.outputs import write_results
    from reports.page import write_page
    from reports.sweep.results import write_figures

    write_results(run, judged, into=into)
    write_figures(Path(run.directory), judged, run.manifest, analysis_id=run.analysis_id, into=into)
    write_page(run, judged, into=into)


def _first_line(error: Exception) -> str:
    first = next(iter(str(error).strip().splitlines()), "")[:200]
    return f"{type(error).__name__}: {first}"


def _say(text: str) -> None:
    print(f"reports: {text}", file=sys.stderr, flush=True)
