"""The page of one run of `python -m benchmarks.limits`, from the document that is also written as JSON. Pure.

Shown by tests/benchmarks/test_benchmarks_limits.py.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.samples import BATCH_NAMES, ONE, PRODUCE_AIMS, Engine

BARE: Final = "bare, in C, 1 thread"
BARE_IN_PYTHON: Final = "bare, in Python on uvloop, 1 thread"
BARE_LABELS: Final = {BARE: "bare server in C", BARE_IN_PYTHON: "in Python"}
MOCK: Final = "librdkafka's mock cluster"
ENGINE_LABELS: Final[Mapping[Engine, str]] = {"reference": "reference broker", "kafka": "Apache Kafka"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One load. 1 MB is 10^6 bytes of record values; times are processor time of all threads for a batch."""

    server: str
    batch_bytes: int
    round_number: int
    mb_per_s: float
    server_us: float
    client_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Where the reference broker's time for a batch goes. perf takes part of `us` itself."""

    batch_bytes: int
    connections: int
    us: float
    shares: Mapping[str, float]


@dataclass(slots=True, kw_only=True)
class Document:
    date: str
    command: str
    host: Mapping[str, str]
    rounds: int
    seconds: float = 0.0
    warm_ups: dict[str, list[float]] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    splits: list[Split] = field(default_factory=list)
    without_split: str = ""


def render(document: Document) -> str:
    parts = [f"# What limits a produce load, {document.date}", _method(document), _table(document), _reading(document)]
    parts += ["## Where the reference broker's time goes", _split_table(document)]
    parts += ["## Host", "\n".join(f"- {name}: {value}" for name, value in document.host.items())]
    return "\n\n".join(parts) + "\n"


def _method(document: Document) -> str:
    warm = ", ".join(f"{rate:.0f}" for rate in document.warm_ups.get("kafka", []))
    return (
        f"`{document.command}`, {document.seconds:.0f} s. The load *prepared batches* of `make bench`: 1 KiB records "
        "to one partition, acks=1, 2 connections with 5 requests in flight each, by a process of its own. The servers "
        f"take turns in one run; median (minimum-maximum) of {document.rounds} counted rounds. *Bare* servers do the "
        "least that a broker must (`benchmarks/limits/bare_server.c`): they receive a request, write it to one file "
        "with one `pwrite`, and answer. They look at nothing but lengths. librdkafka's mock cluster keeps batches in "
        "memory and speaks the protocol, in one thread; its topic has four partitions, taken in turns. Times are "
        "processor time for a batch, of all threads; the client's is that of the load. Apache Kafka was warm (its "
        f"loads before that, MB/s: {warm})."
    )


def _table(document: Document) -> str:
    lines = [
        "| batch | server | MB/s | times Apache Kafka | server, us a batch | client, us a batch |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for batch_bytes in _batches(document):
        kafka = _median(document, batch_bytes, ENGINE_LABELS["kafka"])
        for server in _servers(document):
            found = _of(document, batch_bytes, server)
            rates = [each.mb_per_s for each in found]
            ratio = f"{statistics.median(rates) / kafka:.2f}"
            times = (_spread([each.server_us for each in found]), _spread([each.client_us for each in found]))
            cells = (BATCH_NAMES[batch_bytes], server, _spread(rates), ratio, *times)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _reading(document: Document) -> str:
    """What the aims of `make bench` leave to one thread, beside what servers take that do nothing else."""
    lines = ["What the aims of `make bench` leave to a broker of one thread, in us of processor time a batch:", ""]
    header = ["batch", "aim, times Apache Kafka", "MB/s", "leaves", *(BARE_LABELS.values()), "reference broker", ""]
    lines += [f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    for batch_bytes in _batches(document):
        aim = PRODUCE_AIMS[ONE.brokers][batch_bytes]
        rate = aim * _median(document, batch_bytes, ENGINE_LABELS["kafka"])
        left_us = batch_bytes / rate
        taken = [_median_us(document, batch_bytes, name) for name in (*BARE_LABELS, ENGINE_LABELS["reference"])]
        bare_rate = _median(document, batch_bytes, BARE)
        verdict = f"left for the work of a broker: {left_us - taken[0]:.0f} in C, {left_us - taken[1]:.0f} in Python"
        if bare_rate < rate:
            verdict = f"out of reach: the bare server has {bare_rate:.0f} MB/s"
        cells = [BATCH_NAMES[batch_bytes], f"{aim:g}", f"{rate:.0f}", *(f"{each:.0f}" for each in (left_us, *taken))]
        lines.append(f"| {' | '.join([*cells, verdict])} |")
    return "\n".join(lines)


def _split_table(document: Document) -> str:
    if document.without_split:
        return f"Not measured: {document.without_split}."
    names = list(dict.fromkeys(name for split in document.splits for name in split.shares))
    header = ["of each batch, us", *(_load_name(split) for split in document.splits)]
    rows = [["all (perf's own part in it)", *(f"{split.us:.1f}" for split in document.splits)]]
    for name in names:
        found = [(split.shares.get(name, 0.0), split.us) for split in document.splits]
        rows += [[name, *(f"{share * us:.1f} ({share:.0%})" for share, us in found)]]
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _load_name(split: Split) -> str:
    return f"{BATCH_NAMES[split.batch_bytes]}, {split.connections} connections"


def _batches(document: Document) -> list[int]:
    return list(dict.fromkeys(each.batch_bytes for each in document.samples))


def _servers(document: Document) -> list[str]:
    return list(dict.fromkeys(each.server for each in document.samples))


def _of(document: Document, batch_bytes: int, server: str) -> list[Sample]:
    return [each for each in document.samples if (each.batch_bytes, each.server) == (batch_bytes, server)]


def _median(document: Document, batch_bytes: int, server: str) -> float:
    return statistics.median(each.mb_per_s for each in _of(document, batch_bytes, server))


def _median_us(document: Document, batch_bytes: int, server: str) -> float:
    return statistics.median(each.server_us for each in _of(document, batch_bytes, server))


def _spread(values: Sequence[float]) -> str:
    digits = 1 if max(values) < 100 else 0
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"
