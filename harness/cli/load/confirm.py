"""`harness confirm RUN`: runs the configuration that a sweep recommends again and compares the result with its
prediction.

Owns finding the recommended cell, running it alone, and the files of the outcome. reports.figures.compare.confirm makes
the judgement. Shown by tests/harness/test_harness_confirm.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cli.arguments.run_options import RunOptions
from harness.cli.load.run import run_suites
from harness.designs import LATIN_HYPERCUBE
from harness.errors import ExitCode, UsageError
from harness.plan import ceiling_id
from harness.run.directory.run_directory import RUNS, check_run_directory, new_run_path
from harness.suite import Suite
from harness.terminal.tables import stdout_width, wrapped_line
from reports.figures.compare.confirm import (
    DECIDES,
    compiler_aside,
    confirm,
    exit_code,
    values_of,
)
from reports.figures.measurements import configuration_name
from runlog.files.redaction import has_hidden
from runlog.records.confirmation import (
    CompilerAside,
    Confirmation,
    ConfirmationRecord,
    ConfirmationResult,
    ConfirmedAnalyses,
)
from runlog.records.documents import read_cell, read_run_record
from runlog.records.results import read_analysis_id, read_measurements, read_sweep, write_confirmation
from runlog.records.sweep import PredictedFigure


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommended:
    """What a run's directory says of the configuration that its sweep recommends."""

    suite: Suite  # the sweep alone, repeated as often as asked
    name: str  # It is the cell's, without its repetition.
    cells: tuple[str, ...]
    engine: str
    client: str
    seed: int
    predicted: Mapping[str, PredictedFigure]
    analysis_id: str = ""  # that recommended it


def read_recommended(directory: Path, repetitions: int) -> Recommended:
    """UsageError if the run holds no sweep, or recommends nothing."""
    check_run_directory(directory)
    run = read_run_record(directory)
    try:
        sweep = read_sweep(directory)
    except FileNotFoundError as error:
        raise UsageError(
            f"{directory}: no results/sweep.json; confirm needs an analysed sweep of two configurations or more "
            f"(`harness report {directory}` analyses it)"
        ) from error
    recommendation = sweep.recommendation
    if not recommendation.cell_id:
        raise UsageError(f"{directory}: this sweep recommends nothing; report.html says why")
    name = configuration_name(recommendation.cell_id)
    document = dict(run.suite_document)
    if has_hidden(document):
        raise UsageError(
            f"{directory}: the run's settings held a secret, which no run directory keeps: run the suite's file again "
            f"with --cell {name}-r1 and --cell {name}-r2 instead"
        )
    if recommendation.predicted is None:
        raise UsageError(f"{directory}: this sweep predicts nothing of what it recommends, so nothing can be confirmed")
    # Its limits may name cells that do not run here; what is judged here is the prediction.
    document.update(chaos=[], search=None, limits=[], name=f"{document['name']}-confirm")
    document["sweep"] = {**document["sweep"], "repetitions": repetitions, "forks": 1}
    suite = Suite.model_validate(document)
    assert suite.sweep is not None, "a sweep was analysed"
    return Recommended(
        suite=suite,
        name=name,
        cells=_cells(name, repetitions, has_ceiling=suite.sweep.ceiling is not None),
        engine=run.engine or "",
        client=_client(directory, recommendation.cell_id, run.client or ""),
        # A new seed gives other payloads and another order. A Latin hypercube would also get other points.
        seed=(run.seed or 0) + (suite.sweep.design != LATIN_HYPERCUBE),
        predicted=recommendation.predicted,
        analysis_id=sweep.analysis_id,
    )


def _cells(name: str, repetitions: int, *, has_ceiling: bool) -> tuple[str, ...]:
    paced = [f"{name}-r{number}" for number in range(1, repetitions + 1)]
    return tuple([*paced, *map(ceiling_id, paced)] if has_ceiling else paced)


def _client(directory: Path, cell_id: str, of_run: str) -> str:
    """A sweep may have another client than the rest of its run."""
    try:
        return read_cell(directory, cell_id).client or of_run
    except FileNotFoundError:
        return of_run


def confirm_run(directory: Path, options: RunOptions, repetitions: int) -> ExitCode:
    """0 as predicted or better, 1 worse, 4 if a figure is missing or undecided. The last line on stdout is the path of
    the new run's report."""
    recommended = read_recommended(directory.resolve(), repetitions)
    run_dir = (options.run_dir or new_run_path(RUNS, recommended.suite.name)).resolve()
    code = run_suites(
        [recommended.suite],
        replace(
            options, engine=recommended.engine, client=recommended.client, seed=recommended.seed,
            cells=recommended.cells, run_dir=run_dir, make_report=True,
        ),
    )  # fmt: skip
    if code not in (ExitCode.PASS, ExitCode.FAIL, ExitCode.INCONCLUSIVE):
        return code
    cells = read_measurements(run_dir)
    found = confirm(recommended.predicted, values_of(recommended.predicted, cells))
    aside = compiler_aside(recommended.predicted, cells)
    write_confirmation(
        run_dir,
        ConfirmationRecord(
            sweep=str(directory),
            analyses=ConfirmedAnalyses(sweep=recommended.analysis_id, new=read_analysis_id(run_dir)),
            cell=recommended.name,
            basis=basis(recommended.predicted),
            measures=tuple(found),
            compiler_us_per_record=aside,
        ),
    )
    for line in text(recommended.name, found, recommended.predicted, aside):
        print("\n".join(wrapped_line(line, stdout_width())))
    print(run_dir / "report.html", flush=True)
    return code if code is ExitCode.FAIL else ExitCode(exit_code(found))


def basis(predicted: Mapping[str, PredictedFigure]) -> str:
    """What the intervals of the prediction hold."""
    forks = max((one.forks for one in predicted.values()), default=1)
    if forks == 1:
        return "predicted from one cluster: another one may differ by more than its intervals say"
    return f"predicted for one more cluster, from {forks}, 19 times in 20"


def text(
    name: str, found: list[Confirmation], predicted: Mapping[str, PredictedFigure], aside: CompilerAside | None = None
) -> list[str]:
    repetitions = max((each.repetitions for each in found), default=0)
    lines = [f"{name}, {repetitions} repetitions on one cluster; {basis(predicted)}"]
    for each in found:
        measured = _interval(each.measured) if each.measured else "–"
        figures = f"predicted {_interval(each.predicted):32} measured {measured:32}"
        lines.append(f"{each.title:24} {figures} {each.unit:10} {_outcome(each)}")
    if aside is not None:
        measured = "–" if aside.measured is None else f"{aside.measured:,.4g}"
        figures = f"in sweep  {aside.predicted:<32,.4g} measured {measured:32}"
        lines.append(f"{'JIT compilers, beside it':24} {figures} {'µs':10} not judged")
    return lines


def _outcome(each: Confirmation) -> str:
    """With the reason if it is undecided: how far the figure could be off, and how far it may be."""
    if each.result is not ConfirmationResult.UNDECIDED:
        return each.result
    off = "unknown" if each.allowed_share is None else f"up to {each.allowed_share:.0%}"
    return f"{each.result}: it may be off by {off}, at most {DECIDES:.0%} would confirm; more repetitions tell more"


def _interval(figures: tuple[float, float | None, float | None]) -> str:
    value, low, high = figures
    return f"{value:,.4g}" if low is None or high is None else f"{value:,.4g} ({low:,.4g} to {high:,.4g})"
