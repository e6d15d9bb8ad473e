"""A plan in words: what would be done, in which order, and how long it takes.

Shown by tests/harness/test_harness_cli.py and test_harness_widths.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from harness.cli.arguments.run_options import RunOptions
from harness.clusters.base import Engine
from harness.planned_cell import PlannedCell
from harness.run.time_left import WARMED_ENGINES, repeats_of, time_left_of
from harness.suite import Suite
from harness.terminal.tables import Column, print_fitting, stdout_width, table_lines


def print_plan(suite: Suite, cells: Sequence[PlannedCell], options: RunOptions) -> None:
    """What would be done, in order; one line a cell."""
    head = f"suite {suite.name}: {counted_cells(len(cells))}, cluster {options.cluster_words(suite)}"
    print_fitting(f"{head}, {options.client_words(suite)}, seed {options.seed_of(suite)}")
    for line in _plan_lines(cells, options.engine, stdout_width()):
        print(line)
    if suite.search is not None:
        search = suite.search
        fractions = ", ".join(f"{fraction:.0%}" for fraction in search.fractions)
        print_fitting(
            f"then a search between {search.low_per_s:g} and {search.high_per_s:g} records/s for the highest rate that "
            f"keeps a p99 of at most {search.contract.p99_ms:g} ms: at most {search.probes_max} tries, and the latency "
            f"at {fractions} of the rate that is kept"
        )
    if not cells:
        return
    time_left = time_left_of(suite, cast(Engine, options.engine))
    number, clusters_s = time_left.of_clusters(cells)
    of_clusters = f", up to {minutes(clusters_s)} for clusters that are started{_warmed(options.engine)}: {number}"
    print_fitting(
        f"about {minutes(time_left.seconds(cells))}{' without the search' if suite.search else ''}"
        f"{'' if options.engine == 'external' else of_clusters}"
    )
    if any(cell.is_of_sweep for cell in cells):
        print_fitting(spoilt_cells(suite, cells))


_PLAN: Final = (
    Column(heading="cell"),
    Column(heading="client", spare=1),
    Column(heading="load"),
    Column(heading="title", is_text=True),
)


def _plan_lines(cells: Sequence[PlannedCell], engine: str, width: int | None) -> list[str]:
    """Each cell in order, and the places where another cluster of the sweep begins."""
    rows = []
    for order, cell in enumerate(cells, start=1):
        workload = cell.workload
        rate = "at most" if cell.kind == "ceiling" else f"{workload.rate_per_s:g}/s"
        load = f"{rate} x {workload.record_size_bytes} B, {workload.warmup_ms}+{workload.measure_ms} ms"
        rows.append([f"{order:3}  {cell.cell_id}", cell.client, load, cell.title])
    lines = table_lines(_PLAN, rows, width)
    forks = {cell.fork for cell in cells if cell.is_of_sweep}
    begins: dict[str, int] = {}
    for row, cell in zip(rows, cells, strict=True):
        if cell.is_of_sweep and len(forks) > 1 and cell.fork not in begins.values():
            begins[row[0]] = cell.fork
    shown = []
    for line in lines[1:]:
        fork = next((number for first, number in begins.items() if line == first or line.startswith(f"{first} ")), 0)
        if fork:
            shown.append(f"     fork {fork}: a cluster of its own, started{_warmed(engine)} anew")
        shown.append(line)
    return shown


def spoilt_cells(suite: Suite, cells: Sequence[PlannedCell]) -> str:
    """What a busy host may cost this run, told before it begins."""
    longest_ms = repeats_of(suite, cells).whole_ms
    if not longest_ms:
        return "cells that a busy host spoils are not repeated: they are marked"
    return f"cells that a busy host spoils are run again for at most {minutes(longest_ms / 1000)} in all, then marked"


def _warmed(engine: str) -> str:
    return " and warmed up" if engine in WARMED_ENGINES else ""


def seconds_of(suite: Suite, cells: Sequence[PlannedCell], options: RunOptions) -> float:
    """How long these cells will take, clusters and all."""
    return time_left_of(suite, cast(Engine, options.engine)).seconds(cells)


def counted_cells(number: int) -> str:
    return counted(number, "cell")


def counted(number: int, what: str) -> str:
    """`1 topic`, `2 topics`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def extra_cells(suite: Suite) -> int:
    """The largest number of cells that a rate search adds while it runs."""
    search = suite.search
    return 0 if search is None else search.probes_max + search.repetitions * len(set(search.fractions))
