"""One analysis from a run directory to its published results. It has the order of the steps and makes no decision.

Shown by tests/reports/test_reports_command.py.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reports.judge.allowances import Allowances, read_allowances
from reports.read.cell import Cell, Run
from reports.read.model import CellFacts
from reports.read.parts import directory_bytes, parquet_bytes, stored_at
from reports.read.run_files import read_run
from reports.read.spark_needs import SparkUnavailableError, parse_conf, require_what_it_takes
from reports.render.publication import PAGE, Publication
from runlog.files.redaction import hidden_text
from runlog.streams.place import InBucket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reports.judge.judged import Judged
    from reports.judge.run_limits import RunLimit
    from reports.read.session import Session

    RunLimits = tuple[RunLimit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    run_dir: Path
    master: str
    allow: Path | None
    analysis_id: str
    store: str | None = None  # read the Parquet there, in place
    spark_conf: tuple[str, ...] = ()  # spark.NAME=VALUE


@dataclass(frozen=True, slots=True)
class Lent:
    """A session that its owner keeps, for several analyses one after the other."""

    spark: SparkSession

    def __enter__(self) -> SparkSession:
        return self.spark

    def let_go(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def carry_out(request: Request, *, session: Session | Lent | None = None) -> int:
    """The exit code that the verdict has. Without a session the analysis starts and ends one of its own."""
    allowances = Allowances(read_allowances(request.allow) if request.allow else ())
    run = replace(read_run(request.run_dir), analysis_id=request.analysis_id)
    if request.store is not None:
        run = replace(run, stored=stored_at(request.store, run.record))
    require_what_it_takes(request.master)
    with Publication(Path(run.directory), request.analysis_id) as publication:
        code = _analyse(request, run, allowances, publication.aside, session or own_session(request, run))
        publication.publish()
    print(Path(run.directory) / PAGE)
    return code


def own_session(request: Request, run: Run | None = None) -> Session:
    """Not started yet. Its settings follow from the size of the run, or, without `run`, of its directory now."""
    from reports.read.session import SMALL_RUN_BYTES, Session

    size_bytes = directory_bytes(request.run_dir) if run is None else parquet_bytes(run)
    stored = None if run is None else run.stored
    server = stored.server() if isinstance(stored, InBucket) else None
    return Session(
        master=request.master,
        small=size_bytes < SMALL_RUN_BYTES,
        bucket_server=server,
        conf=parse_conf(request.spark_conf),
    )


def _analyse(request: Request, run: Run, allowances: Allowances, into: Path, session: Session | Lent) -> int:
    """Writes all results into the directory `into`; the exit code that the verdict has."""
    started = time.monotonic()
    _say(f"{len(run.cells)} cells, Spark on {hidden_text(request.master)}")
    preparation = start_preparation()
    with session as spark:
        # Imported late, so that a usage error answers at once. The preparation has imported them by now.
        from reports.analyse.analysis import analyse
        from reports.analyse.tolerant import facts_of_all
        from reports.judge.judged import exit_code

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
        session.let_go()
        judged = _all_judged(facts, allowances)
        limits = _limits_of(run, judged, allowances)  # before the allowances say which of them matched nothing
        run = replace(run, notes=(*run.notes, *allowances.notes()))
        preparation.join()
        judged, limits = _write(run, judged, limits, into, allowances)
        _say(f"page written after {time.monotonic() - started:.1f} s")
    return exit_code(judged, run.problems, [one.check for one in limits])


def start_preparation() -> threading.Thread:
    preparation = threading.Thread(target=_prepare_page, name="prepare-page", daemon=True)
    preparation.start()
    return preparation


def _prepare_page() -> None:
    """Two seconds of work that need no answer of Spark, while its JVM starts: what the analysis and the page import,
    and the page's script.

    What fails here fails again, and is told, where the page is written.
    """
    with contextlib.suppress(Exception):
        import reports.analyse.analysis  # noqa: F401  (wanted first)
        from reports.render.page import vega

        vega()


def is_answering(spark: SparkSession, master: str) -> bool:
    """Whether the session still does what is asked: else no cell is to blame for anything."""
    from reports.read.spark_bounds import bounded, timeout_s_of

    try:
        with bounded("asking Spark whether it is still there", timeout_s_of(master)):
            return spark.range(1).count() == 1
    except Exception:  # Whatever the exception is, it does not answer.
        return False


def _all_judged(facts: Sequence[CellFacts], allowances: Allowances) -> list[Judged]:
    """Cell by cell, then the limits, which may compare cells, then what is allowed for now."""
    from reports.judge.limits import with_limits

    judged = with_limits([_judged(item) for item in facts])
    return [replace(item, verdict=allowances.apply(item.facts.cell.cell_id, item.verdict)) for item in judged]


def _limits_of(run: Run, judged: Sequence[Judged], allowances: Allowances) -> RunLimits:
    """Limits for several cells, or for the run itself, with what is allowed for now."""
    from reports.judge.run_limits import run_limits

    return tuple(
        replace(one, check=allowances.apply_to_check(one.subject, one.check))
        for one in run_limits(run.record.limits, judged, run.search)
    )


def _judged(facts: CellFacts) -> Judged:
    """A cell whose document makes a rule stumble is inconclusive, and says so."""
    from reports.judge.judged import Judged
    from reports.judge.verdict import judge

    try:
        return Judged(facts=facts, verdict=judge(facts))
    except Exception as error:
        return _unusable(facts, error)


def _unusable(facts: CellFacts, error: Exception) -> Judged:
    from reports.analyse.tolerant import unusable
    from reports.judge.judged import Judged
    from reports.judge.verdict import judge

    traceback.print_exc()
    nothing = unusable(facts.cell, f"what it recorded cannot be judged or shown: {_first_line(error)}")
    return Judged(facts=nothing, verdict=judge(nothing))


def _write(
    run: Run, judged: list[Judged], limits: RunLimits, into: Path, allowances: Allowances
) -> tuple[list[Judged], RunLimits]:
    """All results; cells that alone cannot be written are replaced by what can be said of them. What was written."""
    try:
        _write_all(run, judged, limits, into)
        return judged, limits
    except OSError:
        raise
    except Exception as error:
        _say(f"the results could not be written ({_first_line(error)}); each cell is tried alone")
    sound: list[Judged] = []
    for item in judged:
        with tempfile.TemporaryDirectory(dir=into, prefix="alone-") as alone:
            try:
                _write_all(run, [item], (), Path(alone))
                sound.append(item)
            except OSError:
                raise
            except Exception as error:
                sound.append(_unusable(item.facts, error))
    limits = _limits_of(run, sound, allowances)
    _write_all(run, sound, limits, into)
    return sound, limits


def _write_all(run: Run, judged: list[Judged], limits: RunLimits, into: Path) -> None:
    from reports.figures.figures import figures_of
    from reports.render.results import write_all

    write_all(figures_of(run, judged, limits), into)


def _first_line(error: Exception) -> str:
    first = next(iter(str(error).strip().splitlines()), "")[:200]
    return f"{type(error).__name__}: {first}"


def _say(text: str) -> None:
    print(f"reports: {text}", file=sys.stderr, flush=True)
