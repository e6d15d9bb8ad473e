"""One run whose readers differ: which of them got what, and when. One analysis serves all tests that look at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from chaos.criterion import READER_LATE
from reports.analyse.analysis import analyse
from reports.figures.figures import Figures, figures_of
from reports.judge.judged import Judged
from reports.judge.limits import with_limits
from reports.judge.verdict import judge
from reports.read.model import CellFacts
from reports.read.run_files import read_run
from reports.render.page import write_page
from reports.render.results import write_results
from runlog.streams.schema import SendStatus
from tests.reports.synthetic_run import SyntheticCell, write_run

LIMIT = "end_to_end_p99_ms <= 100000"
NEAR_AND_FAR = [{"name": name, "consumers": 1, "start_after_ms": None} for name in ("near", "far")]
LATE_US = 300_000
READERS = [
    {"name": "leaders", "consumers": 2, "start_after_ms": None, "properties": {}},
    {"name": "near", "consumers": 1, "start_after_ms": None, "properties": {"client.rack": "b"}},
]


def unread(name: str, *, share: float = 0.0, twice: bool = False, acks: str = "all", readers: int = 1) -> SyntheticCell:
    """A cell in which the last reader never got this share of the records, nor ever will."""
    workload = {"rate_per_s": 1500, "record_size_bytes": 100, "producers": 2, "consumers": 1, "measure_ms": 2_000}
    if readers == 2:
        workload["readers"] = NEAR_AND_FAR
    document = {"workload": workload, "limits": [LIMIT, "end_to_end_p50_ms <= 100000"]}
    built = SyntheticCell(cell_id=name, document=document, properties={"acks": acks}).build()
    columns = built.columns["recv"]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    first = [{**row, "reader": 0} for row in rows]
    last = [{**row, "reader": readers - 1, "consumer": readers - 1} for place, row in enumerate(rows)
            if place % 100 >= 100 * share]  # fmt: skip
    kept = [*(first if readers == 2 else []), *last, *(last if twice else [])]
    built.columns["recv"] = {name: [row[name] for row in kept] for name in columns}
    return built


def stalled(name: str) -> SyntheticCell:
    """A fifth of the records of 300 ms was never acknowledged."""
    built = SyntheticCell(cell_id=name).build()
    send = built.columns["send"]
    middle = sorted(send["intended_us"])[len(send["seq"]) // 2]
    for place, due in enumerate(send["intended_us"]):
        if middle <= due < middle + 300_000 and place % 5 == 0:
            send["status"][place] = SendStatus.UNKNOWN
    return built


def late(name: str, *, late_us: int = 0, readers: list[dict[str, object]] = READERS) -> SyntheticCell:
    """The second reader gets every record `late_us` later than the first."""
    workload = {"rate_per_s": 1500, "record_size_bytes": 100, "producers": 2, "readers": readers}
    criteria = [{"text": f"{READER_LATE} >= 250ms", "figure": READER_LATE, "limit": 0.25}]
    built = SyntheticCell(cell_id=name, document={"workload": workload, "criteria": criteria}).build()
    columns = built.columns["recv"]
    first = list(zip(*columns.values(), strict=True))
    for values in first:
        row = dict(zip(columns, values, strict=True))
        for column, value in {**row, "reader": 1, "consumer": 2, "polled_us": row["polled_us"] + late_us}.items():
            columns[column].append(value)
    return built


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysed:
    figures: Figures
    facts: Mapping[str, CellFacts]
    cells: Mapping[str, SyntheticCell]
    directory: Path


def analysed_in(directory: Path, spark: SparkSession) -> Analysed:
    """The run of all these cells, with its results and its page."""
    cells = [
        unread("all"), unread("some", share=0.13), unread("twice", share=0.13, twice=True), unread("mute", share=1.0),
        unread("acks-0", share=0.13, acks="0"), unread("two", share=0.13, readers=2), stalled("stall"),
        late("late", late_us=LATE_US), late("calm"), late("single", readers=READERS[:1]),
    ]  # fmt: skip
    run = read_run(write_run(directory, cells))
    facts = analyse(spark, run)
    figures = figures_of(run, with_limits([Judged(facts=item, verdict=judge(item)) for item in facts]))
    write_results(figures, directory)
    write_page(figures, directory)
    return Analysed(
        figures=figures,
        facts={item.cell.cell_id: item for item in facts},
        cells={one.cell_id: one for one in cells},
        directory=directory,
    )
