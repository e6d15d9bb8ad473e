"""The Markdown page of one benchmark run. Pure: from the document, which is also written as JSON, to text.

Shown by tests/benchmarks/test_benchmarks_samples.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.samples import (
    BATCH_NAMES,
    C_CLIENT,
    ENGINES,
    LIGHT,
    START_AIM_S,
    Comparison,
    Engine,
    Paired,
    Sample,
    Spread,
    spread,
)

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
    is_part: bool = False  # some sections only
    complete: bool = False
    failures: list[str] = field(default_factory=list)  # The parts that failed. The others were measured.
    note: str = ""
    seconds: float = 0.0
    starts: list[StartUp] = field(default_factory=list)
    idle: list[IdleCpu] = field(default_factory=list)
    warm_ups: list[WarmUp] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    paired: list[Paired] = field(default_factory=list)


def render(document: Document, comparisons: Sequence[Comparison]) -> str:
    parts = [f"# Brokers, {document.date}", *_warnings(document), _method(document), _main_table(comparisons)]
    brokers = [row for row in document.paired if row.section != "producer" and row.ours and row.theirs]
    producers = [row for row in document.paired if row.section == "producer" and row.ours and row.theirs]
    if brokers:
        parts += ["## Latency, fail-over, start-up", _paired_table(brokers, "reference", "Apache Kafka")]
    if producers:
        parts += ["## Reference producer", PRODUCER_METHOD, _paired_table(producers, "reference", "confluent-kafka")]
    parts += ["## Start-up of the clusters above", _start_table(document), "## Warm-up", _warm_up_table(document)]
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


PRODUCER_METHOD = (
    "Both clients from Python in one process, against librdkafka's mock cluster in another, 128 KiB batches, linger "
    "5 ms, acks=1, no compression; every record was acknowledged."
)


def _paired_table(rows: Sequence[Paired], ours: str, theirs: str) -> str:
    header = ("what", f"{ours}", f"{theirs}", "unit", "ratio", "aim")
    lines = []
    for row in rows:
        digits = 1 if row.unit == "thousand/s" else 2
        aim = "" if row.aim is None else f"{'≥' if row.is_rate else '≤'} {row.aim:g}"
        if row.limit is not None:
            aim = f"≤ {row.limit:g} {row.unit}"
        reached = row.is_reached
        mark = "" if reached is None else f" {_mark(reached)}"
        lines.append(
            (
                row.name,
                _spread(spread(row.ours), digits),
                _spread(spread(row.theirs), digits),
                row.unit,
                f"{row.ratio:.2f}",
                aim + mark,
            )
        )
    return _table(header, lines)


def _method(document: Document) -> str:
    return (
        f"`{document.command}`, {document.seconds:.0f} s. A load is up to {document.load_bytes / 1e6:.0f} MB of 1 KiB "
        "records to one partition without compression, unless its name says otherwise, by a process of its own. "
        f"*{C_CLIENT.name}*: librdkafka as a program in C uses it (c_client.c), with 5 requests in flight and linger "
        "5 ms, reading 50 MiB a fetch and 10 MiB a partition; with so few in flight a follower's fetch carries one "
        "batch, which is what users of Kafka's clients have by default; "
        f"*{LIGHT.name}*: made once and sent over 2 connections with 5 requests in flight each (replay.py), so that "
        "the broker is the limit; *librdkafka*: records one by one from Python, linger 5 ms, one connection. What was "
        f"produced is then read back from the page cache. Median (minimum-maximum) of {document.rounds} counted "
        "round(s), the engines taking turns in one run. Topics are deleted in between; before each load as much memory "
        "as its copies take is written to and freed, so that neither engine pays for pages that the host of a virtual "
        "machine must back first. Broker CPU is user and system "
        "time of all broker processes. Ratios are reference / Apache Kafka. Apache Kafka is built for many cores: on a "
        "host with few, where the client competes with the brokers, it is at a disadvantage that a larger host would "
        "not show."
    )


def _main_table(comparisons: Sequence[Comparison]) -> str:
    header = ("cluster", "load", "work", "batch", "reference MB/s", "Apache Kafka MB/s", "ratio", "aim",
              "reference CPU s/GB", "Apache Kafka CPU s/GB", "CPU ratio", "aim")  # fmt: skip
    rows = [
        (
            line.shape,
            line.load,
            line.operation,
            BATCH_NAMES[line.batch_bytes],
            *(_spread(line.rate[engine], 0) for engine in ENGINES),
            f"{line.rate_ratio:.2f}",
            "" if line.rate_aim is None else f"≥ {line.rate_aim:g} {_mark(line.rate_ratio >= line.rate_aim)}",
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
