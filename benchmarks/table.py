"""The Markdown page of one benchmark run. Pure: from the document, which is also written as JSON, to text.

Shown by tests/benchmarks/test_benchmarks_samples.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.samples import BATCH_NAMES, ENGINES, START_AIM_S, Comparison, Engine, Sample, Spread

ENGINE_NAMES: Mapping[Engine, str] = {"reference": "reference", "kafka": "Apache Kafka"}


@dataclass(slots=True, kw_only=True)
class StartUp:
    """From the first broker process to every broker seeing all others; `prepare_s` (formatting) lies before it."""

    shape: str
    brokers: int
    engine: Engine
    prepare_s: float
    answering_s: float


@dataclass(slots=True, kw_only=True)
class WarmUp:
    """Produce figures of one engine in the order they were taken, before anything counted."""

    shape: str
    engine: Engine
    load_bytes: int
    mb_per_s: list[float] = field(default_factory=list)
    ended_because: str = ""


@dataclass(slots=True, kw_only=True)
class IdleCpu:
    """CPU that all brokers of a cluster use while nobody talks to them: both run at the same time."""

    shape: str
    engine: Engine
    ms_per_s: float


@dataclass(slots=True, kw_only=True)
class Document:
    """All of one run. `complete` is False until the last load has ended; `note` then says why."""

    date: str
    command: str
    host: Mapping[str, str]
    quick: bool
    load_bytes: int
    rounds: int
    complete: bool = False
    note: str = ""
    seconds: float = 0.0
    starts: list[StartUp] = field(default_factory=list)
    idle: list[IdleCpu] = field(default_factory=list)
    warm_ups: list[WarmUp] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)


def render(document: Document, comparisons: Sequence[Comparison]) -> str:
    parts = [f"# Brokers, {document.date}", *_warnings(document), _method(document), _main_table(comparisons)]
    parts += ["## Start-up", _start_table(document), "## Warm-up", _warm_up_table(document)]
    parts += ["## Idle", _idle_table(document), "## Host", _facts(document)]
    return "\n\n".join(parts) + "\n"


def _warnings(document: Document) -> list[str]:
    warnings = []
    if document.quick:
        warnings.append("> **Quick mode**: shows that the benchmark works. The JVM is cold and the loads are small: "
                        "these figures compare nothing.")  # fmt: skip
    if not document.complete:
        warnings.append(f"> **Incomplete**: {document.note}")
    return warnings


def _method(document: Document) -> str:
    return (
        f"`{document.command}`, {document.seconds:.0f} s. Each load: {document.load_bytes / 1e6:.0f} MB of 1 KiB "
        "records by librdkafka to one partition, no compression, linger 5 ms, in a process of its own; then the same "
        "records are read back from the page cache. Median (minimum-maximum) of "
        f"{document.rounds} counted round(s), the engines taking turns in one run; topics are deleted in between. "
        "Broker CPU is user and system time of all broker processes. Ratios are reference / Apache Kafka. Apache Kafka "
        "is built for many cores: on a host with few, where the client competes with the brokers, it is at a "
        "disadvantage that a larger host would not show."
    )


def _main_table(comparisons: Sequence[Comparison]) -> str:
    header = ("cluster", "work", "batch", "reference MB/s", "Apache Kafka MB/s", "ratio", "aim", "reference CPU s/GB",
              "Apache Kafka CPU s/GB", "CPU ratio", "aim")  # fmt: skip
    rows = [
        (
            line.shape,
            line.operation,
            BATCH_NAMES[line.batch_bytes],
            *(_spread(line.rate[engine], 0) for engine in ENGINES),
            f"{line.rate_ratio:.2f}",
            f"≥ {line.rate_aim:g} {_mark(line.rate_ratio >= line.rate_aim)}",
            *(_spread(line.broker_cpu[engine], 2) for engine in ENGINES),
            f"{line.cpu_ratio:.2f}",
            "" if line.cpu_aim is None else f"≤ {line.cpu_aim:.2f} {_mark(line.cpu_ratio <= line.cpu_aim)}",
        )
        for line in comparisons
    ]
    return _table(header, rows) if rows else "No work was measured on both engines."


def _start_table(document: Document) -> str:
    rows = []
    for start in document.starts:
        aimed = start.engine == "reference" and start.brokers == 3
        aim = f"≤ {START_AIM_S} s {_mark(start.answering_s <= START_AIM_S)}" if aimed else ""
        name = ENGINE_NAMES[start.engine]
        rows.append((start.shape, name, f"{start.prepare_s:.2f}", f"{start.answering_s:.2f}", aim))
    return _table(("cluster", "engine", "files, formatting s", "processes to all answering s", "aim"), rows)


def _warm_up_table(document: Document) -> str:
    rows = []
    for warm_up in document.warm_ups:
        series = ", ".join(f"{figure:.0f}" for figure in warm_up.mb_per_s)
        name = f"{ENGINE_NAMES[warm_up.engine]}, loads of {warm_up.load_bytes / 1e6:.0f} MB"
        rows.append((warm_up.shape, name, series, warm_up.ended_because))
    intro = "Produce in MB/s, 128 KiB batches, in the order taken, before anything counted.\n\n"
    return intro + _table(("cluster", "engine", "series", "ended because"), rows)


def _idle_table(document: Document) -> str:
    rows = [(each.shape, ENGINE_NAMES[each.engine], f"{each.ms_per_s:.1f}") for each in document.idle]
    return _table(("cluster", "engine", "CPU ms per s, all brokers, nobody connected"), rows)


def _facts(document: Document) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in document.host.items())


def _spread(value: Spread, digits: int) -> str:
    return f"{value.median:.{digits}f} ({value.minimum:.{digits}f}-{value.maximum:.{digits}f})"


def _mark(reached: bool) -> str:
    return "✓" if reached else "✗"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
