"""`harness compare BASE NEW`: compares two run directories. It needs no cluster.

Owns reading both runs, refusing runs that are not comparable, and the exit code. The statistics are in
reports/figures/compare. Shown by tests/harness/test_harness_compare.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.errors import ExitCode, UsageError
from harness.run.directory.run_directory import check_run_directory
from harness.run.report.reporting import make_report
from harness.run.report.spark_choice import THIS_HOST, SparkChoice
from harness.terminal.progress import Progress
from harness.terminal.signals import StopFlag, signals_set
from harness.terminal.tables import stdout_width, wrapped_line
from reports.figures.compare.compared import Compared, comparison_figures
from reports.figures.compare.comparison import Row, compare, pair_alone, pair_up, search_row
from reports.figures.compare.likeness import Likeness, compare_surroundings
from reports.render.comparison import text, write
from runlog.records.cell import CellStatus
from runlog.records.documents import read_cell, read_run_record, read_search_record
from runlog.records.measurements import Measurement
from runlog.records.results import MeasurementsError, read_analysis_id, read_measurements
from runlog.records.run import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    directory: Path
    record: RunRecord
    cells: list[Measurement]


def compare_runs(base: Path, new: Path, *, force: bool, relevant: float, spark: SparkChoice = THIS_HOST) -> ExitCode:
    """Prints the comparison; the last line of stdout is the page. 0 same or better, 1 worse, 4 undecided."""
    if not 0 < relevant <= 1:
        raise UsageError(f"--relevant {relevant * 100:g}: expected more than 0 and at most 100 per cent")
    directories = [directory.resolve() for directory in (base, new)]
    if directories[0] == directories[1]:
        raise UsageError(f"BASE and NEW are one run, {directories[0]}: give two that were measured one after the other")
    for directory in directories:
        _check_finished(directory)
    sides = [_read(directory, spark) for directory in directories]
    pairs = pair_up(sides[0].cells, sides[1].cells) or pair_alone(sides[0].cells, sides[1].cells)
    names = [{cell.name for cell in side.cells} for side in sides]
    if not pairs:
        raise UsageError(
            f"{base} and {new} have no cell in common: BASE has {_some(names[0])}, NEW has {_some(names[1])}"
        )
    likeness = compare_surroundings(sides[0].record, sides[1].record, list(pairs.values()))
    if likeness.unlike and not force:
        raise UsageError(_refusal(likeness))
    compared = Compared(
        base=sides[0].directory.name,
        new=sides[1].directory.name,
        comparison=compare(
            pairs,
            relevant=relevant,
            limit=_limit(sides[0].directory, sides[1].directory, relevant),
            unequal=likeness.unequal,
        ),
        likeness=likeness,
        forced=force and bool(likeness.unlike),
        only_base=tuple(sorted(names[0] - names[1])) if names[0] & names[1] else (),
        only_new=tuple(sorted(names[1] - names[0])) if names[0] & names[1] else (),
        analyses=(read_analysis_id(sides[0].directory), read_analysis_id(sides[1].directory)),
    )
    figures = comparison_figures(compared)
    page = write(sides[1].directory, figures)
    for line in text(figures):
        print("\n".join(wrapped_line(line, stdout_width())))
    print(page, flush=True)
    return ExitCode(figures.record.exit_code)


def _read(directory: Path, spark: SparkChoice) -> _Side:
    """Analyses the run first if that was not done, or if an older version that wrote less did it."""
    try:
        cells = read_measurements(directory)
    except MeasurementsError:
        stop = StopFlag()
        with signals_set(stop):
            make_report(directory, spark=spark, stop=stop, progress=Progress(0))
        cells = read_measurements(directory)
    return _Side(directory=directory, record=read_run_record(directory), cells=cells)


def _check_finished(directory: Path) -> None:
    """UsageError at once where an analysis would find nothing that can be compared."""
    check_run_directory(directory)
    cells = read_run_record(directory).cells or ()
    if cells and not any(_is_finished(directory, cell_id) for cell_id in cells):
        raise UsageError(f"{directory}: none of its {len(cells)} cells was finished, so there is nothing to compare")


def _is_finished(directory: Path, cell_id: object) -> bool:
    try:
        return read_cell(directory, str(cell_id)).outcome.status in (CellStatus.DONE, CellStatus.FAILED)
    except (OSError, ValueError):
        return False


def _limit(base: Path, new: Path, relevant: float) -> Row | None:
    """The row of the rate searches, if both runs made one."""
    of_base, of_new = read_search_record(base), read_search_record(new)
    return search_row(of_base, of_new, relevant) if of_base and of_new else None


def _some(names: set[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "") if shown else "none"


def _refusal(likeness: Likeness) -> str:
    lines = "\n".join(f"  {line}" for line in likeness.unlike)
    return f"these runs measured different things, so a difference would say nothing:\n{lines}\n--force compares anyway"
