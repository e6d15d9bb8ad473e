"""The report: `python -m reports RUN_DIR` as a child, so that Spark never shares a process with anything; then the
verdicts.

Knows the arguments of the analysis, its exit code and results/verdicts.json. Shown by
tests/harness/test_harness_reporting.py.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import tempfile
import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from harness.clusters.broker_process import ManagedProcess, tail_text
from harness.errors import EnvironmentFault, ExitCode, HarnessError, UsageError
from harness.run.report.analysis_process import Analysis, AnalysisAhead, start
from harness.run.report.spark_choice import SparkChoice
from harness.suite_source import file_problem
from harness.terminal.progress import Progress
from harness.terminal.signals import StopFlag
from harness.terminal.tables import PIPE_WIDTH, Column, print_fitting, table_lines, wrapped_line
from reports.judge.allowances import AllowanceError, read_allowances
from reports.judge.doubt_words import of_inconclusive, of_more_inconclusive, of_problem
from reports.render.publication import BEFORE
from runlog.files.redaction import hidden_text
from runlog.quality.noise import DISTURBED
from runlog.records.cell import CellKind, Expectation
from runlog.records.results import read_verdicts
from runlog.records.verdicts import CellVerdict, LatencyRecord, PredictedDamage, Reading, Result, VerdictsRecord

REPORT_TIMEOUT_S: Final = 1_800.0
# Importing and `java -version` take a second; on a busy host or a slow network they take longer.
CHECK_TIMEOUT_S: Final = 40.0
_ROOM_BYTES: Final = 1 << 20  # The page of a run alone has more.
_OWN_LINE: Final = "reports: "
_VERDICTS: Final = (ExitCode.PASS, ExitCode.FAIL, ExitCode.INCONCLUSIVE)
_WARNINGS_SHOWN: Final = 6
_REASONS_SHOWN: Final = 3  # A cell may have more.
_PROPERTY: Final = " " * 4  # before a line that can be copied into a file: a pipe keeps it whole
_NAMED_MAX: Final = 4  # cells in one line
_STYLES: Final = {"pass": "green", "fail": "bold red", "inconclusive": "yellow"}


def check_allowances(path: Path | None) -> None:
    """Before anything is started: UsageError when the file of `--allow` cannot be used."""
    if path is None:
        return
    if problem := file_problem(path):
        raise UsageError(f"--allow {problem}")
    try:
        read_allowances(path)
    except AllowanceError as error:
        raise UsageError(f"--allow {error}") from error


class AnalysisCheck:
    """Whether Java, pyspark and the named Spark server are there. This is checked before a load that would otherwise be
    for nothing.

    It tries exactly what the analysis will use: the same interpreter, environment and arguments. A process of its own
    does so, while the caller goes on.
    """

    def __init__(self, spark: SparkChoice) -> None:
        self._stderr = tempfile.NamedTemporaryFile(prefix="harness-check-", suffix=".log")  # noqa: SIM115 (result closes it)
        self._process = start("analysis check", ["--check"], spark, Path(self._stderr.name))

    def result(self) -> None:
        """EnvironmentFault with what is missing and how to get it. Waits for the answer, within a bound."""
        try:
            if not self._process.wait(CHECK_TIMEOUT_S):
                raise EnvironmentFault(f"the check of what the analysis needs took longer than {CHECK_TIMEOUT_S:.0f} s")
            if self._process.popen.returncode != ExitCode.PASS:
                raise EnvironmentFault(
                    f"{_told(Path(self._stderr.name))}\n"
                    "nothing was started; --no-report leaves the analysis out, and `harness report RUN` does it later"
                )
        finally:
            self._process.stop(1.0)
            self._stderr.close()


def make_report(
    run_dir: Path,
    *,
    spark: SparkChoice,
    allow: Path | None = None,
    store: str | None = None,
    stop: StopFlag,
    progress: Progress,
    ahead: AnalysisAhead | None = None,
) -> VerdictsRecord:
    """The verdicts of the analysis that this call began, and of no other one. `store`: where the run log is read.
    `ahead`: its Spark may be there already.

    HarnessError, EnvironmentFault or UsageError with the end of the analysis' stderr if it fails.
    """
    _refuse_full_disk(run_dir)
    where = f" on {hidden_text(spark.master)}" if spark.master else ""
    progress.say(
        f"analysis by PySpark{where}: about half a minute for a run like the demo, longer on a busy host; it is ended "
        f"after {REPORT_TIMEOUT_S / 60:.0f} min"
    )
    analysis = ahead.begin() if ahead is not None and store is None else None
    analysis = analysis or Analysis.begun(run_dir, spark, allow, store)
    try:
        _await_end(analysis.process, run_dir, stop)
        try:
            return _verdicts_of(run_dir, analysis.id, int(analysis.process.popen.returncode), analysis.stderr_path)
        except HarnessError:
            _refuse_full_disk(run_dir)  # then stderr.log holds no reason, or half of one
            raise
    finally:
        with contextlib.suppress(OSError):
            analysis.stderr_path.replace(run_dir / "report.stderr.log")


def _refuse_full_disk(run_dir: Path) -> None:
    """EnvironmentFault if there is no room for what an analysis writes."""
    if _free_bytes(run_dir) < _ROOM_BYTES:
        raise EnvironmentFault(f"the disk of {run_dir} is full, and an analysis needs room; what was measured is kept")


def _free_bytes(run_dir: Path) -> float:
    try:
        return shutil.disk_usage(run_dir).free
    except OSError:
        return math.inf  # Whoever writes there says what is wrong.


def _await_end(process: ManagedProcess, run_dir: Path, stop: StopFlag) -> None:
    deadline = time.monotonic() + REPORT_TIMEOUT_S
    try:
        while process.is_running():
            if stop.wait(0.1):
                raise HarnessError(f"the analysis was stopped; `harness report {run_dir}` does it again")
            if time.monotonic() > deadline:
                raise HarnessError(f"the analysis took longer than {REPORT_TIMEOUT_S:.0f} s and was ended")
    finally:
        process.stop(3.0)


def _verdicts_of(run_dir: Path, analysis_id: str, code: int, stderr_path: Path) -> VerdictsRecord:
    """An exit code alone proves nothing: an interpreter that cannot even start also ends with 1."""
    if code in _VERDICTS:
        try:
            verdicts = read_verdicts(run_dir)
        except (OSError, ValueError) as error:
            raise HarnessError(
                f"the analysis ended with {code}, and its verdicts cannot be read ({error}):\n{_told(stderr_path)}"
            ) from error
        if verdicts.analysis.id == analysis_id and verdicts.exit_code == code:
            return verdicts
        raise HarnessError(
            f"the analysis {analysis_id} ended with {code}, and results/verdicts.json is of analysis "
            f"{verdicts.analysis.id} with exit code {verdicts.exit_code}: another one was begun meanwhile\n"
            f"{_told(stderr_path)}"
        )
    kinds: dict[int, type[HarnessError]] = {ExitCode.USAGE: UsageError, ExitCode.ENVIRONMENT: EnvironmentFault}
    if code in kinds:
        raise kinds[code](f"{_told(stderr_path)}{_old_results(run_dir)}")
    raise HarnessError(f"the analysis ended with {code}:\n{_told(stderr_path)}{_old_results(run_dir)}")


def _told(stderr_path: Path) -> str:
    lines = tail_text(stderr_path, 15) if stderr_path.is_file() else ""
    own = [line for line in lines.splitlines() if line.startswith(_OWN_LINE)]
    # A problem that the analysis explains is in its last line. For an unexpected problem everything is shown.
    return own[-1].removeprefix(_OWN_LINE) if own and lines.endswith(own[-1]) else lines


def _old_results(run_dir: Path) -> str:
    before = run_dir / BEFORE
    return f"\nwhat an earlier analysis wrote is in {before}" if before.is_dir() else ""


def exit_code_of(verdicts: VerdictsRecord) -> ExitCode:
    """0, 1 or 4 as the analysis decided. Anything else is an error of ours."""
    return next((code for code in _VERDICTS if code == verdicts.exit_code), ExitCode.HARNESS_ERROR)


_CAPACITY: Final = "capacity"
_SUMMARY: Final = (
    Column(heading="cell"),
    Column(heading="verdict"),
    Column(heading="records/s", is_figure=True),
    Column(heading=_CAPACITY, is_figure=True),
    Column(heading="p50 ms", is_figure=True, spare=2),
    Column(heading="p99 ms", is_figure=True),
    Column(heading="p99 ms uncorrected", is_figure=True, spare=1),
    Column(heading="lost", is_figure=True),
    Column(heading="dup", is_figure=True),
    Column(heading="reordered", is_figure=True),
    Column(heading="predicted", is_text=True),
)


def print_verdicts(verdicts: VerdictsRecord, report_path: Path) -> None:
    """The table on stdout, then what a reader must know, then the verdict. The last line is the report's path alone."""
    console = Console(highlight=False)
    width = console.width if console.is_terminal else None
    for line in _summary_lines(verdicts.cells, width):
        console.print(_coloured(line), soft_wrap=True)
    for text in [
        *_beside_the_table(verdicts.cells),
        *_reasons(verdicts),
        *reading_lines(verdicts.reading, told=_told_as_reasons(verdicts)),
    ]:
        for line in wrapped_line(text, width or (None if text.startswith(_PROPERTY) else PIPE_WIDTH)):
            print(line)
    print_fitting(f"verdict: {verdicts.verdict}")
    print(report_path, flush=True)


def _summary_lines(cells: Sequence[CellVerdict], width: int | None) -> list[str]:
    """A configuration's cell at the ceiling has no row of its own if it passed: its figure stands with the other cell.
    Without ceilings there is no such column."""
    rows = [_row(cell) for cell in cells if cell.kind is not CellKind.CEILING or cell.verdict is not Result.PASS]
    if any(cell.figure("capacity_records_per_s") is not None for cell in cells):
        return table_lines(_SUMMARY, rows, width)
    place = next(index for index, column in enumerate(_SUMMARY) if column.heading == _CAPACITY)
    without = [(*row[:place], *row[place + 1 :]) for row in rows]
    return table_lines([*_SUMMARY[:place], *_SUMMARY[place + 1 :]], without, width)


def _beside_the_table(cells: Sequence[CellVerdict]) -> list[str]:
    """What the table does not show: where the ceilings are, and which cells the host disturbed."""
    passed = sum(cell.kind is CellKind.CEILING and cell.verdict is Result.PASS for cell in cells)
    lines = []
    if passed:
        lines.append(f"{passed} of the {len(cells)} cells are ceilings: their figures stand in the column {_CAPACITY}")
    struck = [cell.cell_id for cell in cells if any(note.startswith(DISTURBED) for note in cell.notes)]
    if struck:
        more = f" and {len(struck) - _NAMED_MAX} more" if len(struck) > _NAMED_MAX else ""
        named = "" if len(struck) == len(cells) else f" ({', '.join(struck[:_NAMED_MAX])}{more})"
        lines.append(f"disturbed by other programs on the host: {len(struck)} of {len(cells)} cells{named}")
    return lines


def _reasons(verdicts: VerdictsRecord) -> list[str]:
    """Reasons of cells that are no pass, holes in the evidence of any cell, and reasons of the run as a whole."""
    told = [f"{cell.cell_id}: {_reason(cell)}" for cell in verdicts.cells if _reason(cell)]
    told += [
        f"{cell.cell_id}: evidence is missing: {'; '.join(unsaid)}"
        for cell in verdicts.cells
        if (unsaid := [hole.text() for hole in cell.holes if hole.text() not in _reason(cell)])
    ]
    told += [
        f"{one.subject}: {one.allowed or one.reason}"
        for one in verdicts.limits
        if one.result is not Result.PASS or one.allowed
    ]
    return [*told, *(f"run: {problem}" for problem in verdicts.run.problems)]


def _reason(cell: CellVerdict) -> str:
    """Why it is no pass; empty if it is one."""
    return "" if cell.verdict is Result.PASS else "; ".join(cell.reasons[:_REASONS_SHOWN])


def _told_as_reasons(verdicts: VerdictsRecord) -> set[str]:
    """Doubts that only say again what `_reasons` prints."""
    told = {of_problem(problem) for problem in verdicts.run.problems}
    undecided = [cell for cell in verdicts.cells if cell.verdict is Result.INCONCLUSIVE and cell.reasons]
    told |= {of_inconclusive(cell.title, cell.reasons[0]) for cell in undecided}
    return told | {of_more_inconclusive(number) for number in range(1, len(undecided))}


def reading_lines(reading: Reading, *, told: AbstractSet[str] = frozenset()) -> list[str]:
    """Limits, what was damaged, what to doubt, what safety costs, the highest rate, and what to run; the same as in
    summary.md. Doubts in `told` are left out."""
    lines = [
        f"limit {one.limit}: held {one.held}, broken {one.broken}, undecided {one.undecided}" for one in reading.limits
    ]
    lines += ["what was damaged:", *(f"  - {text}" for text in reading.damage)] if reading.damage else []
    warnings = [warning for warning in reading.warnings if warning not in told]
    if warnings:
        more = len(warnings) - _WARNINGS_SHOWN
        lines += ["before you read a figure:", *(f"  - {warning}" for warning in warnings[:_WARNINGS_SHOWN])]
        lines += [f"  - {more} more are in the report"] if more > 0 else []
    lines += ["what safety costs:", *(f"  - {text}" for text in reading.safety_cost)] if reading.safety_cost else []
    lines += ["highest rate:", f"  {reading.highest_rate}"] if reading.highest_rate else []
    if reading.recommendation:
        lines += ["what to run:", *(f"  {sentence}" for sentence in reading.recommendation)]
        lines += [f"{_PROPERTY}{line}" for line in reading.properties.splitlines()]
    return lines


def _coloured(line: str) -> Text:
    """The verdict in its colour, where the line has one."""
    text = Text(line)
    for word in line.split():
        if word in _STYLES:
            begin = line.rindex(word)
            text.stylize(_STYLES[word], begin, begin + len(word))
            break
    return text


def _row(cell: CellVerdict) -> tuple[str, ...]:
    corrected, uncorrected = cell.latency_us.corrected, cell.latency_us.uncorrected
    return (
        cell.cell_id,
        cell.verdict.value,
        _number(cell.figure("throughput_records_per_s")),
        _number(cell.figure("capacity_records_per_s")),
        _percentile(corrected, "p50", corrected.p50),
        _percentile(corrected, "p99", corrected.p99),
        _percentile(uncorrected, "p99", uncorrected.p99),
        *(_number(cell.figure(kind)) for kind in ("lost", "duplicated", "reordered")),
        _predicted(cell.predicted),
    )


def _predicted(predicted: PredictedDamage) -> str:
    """Predicted/observed for what happened and for what was allowed. A dash if neither says anything."""
    shown = []
    for name, found in predicted.by_kind().items():
        if found.expected is Expectation.ANY:
            if found.observed:
                shown.append(f"{found.observed:,} {name} (allowed)")
        elif found.predicted or found.observed:
            is_exact = found.only_predicted == 0 and found.only_observed == 0
            shown.append(f"{found.predicted:,}{' =' if is_exact else ' !='} {found.observed:,} {name}")
    return ", ".join(shown) or "-"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _percentile(latency: LatencyRecord, name: str, value_us: float | None) -> str:
    if name in latency.not_reached:
        return "not reached"
    return "-" if value_us is None else f"{value_us / 1000:.1f}"
