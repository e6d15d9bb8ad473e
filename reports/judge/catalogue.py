"""The catalogue of figures: one entry for each figure of a cell says all that there is to say of it.

Columns of cells.csv, fields of verdicts.json and of its schema, the figures that limits may name, columns of the page's
table of cells, and the pages of reference are made of it, in its order. How to add one is on
docs/internals/new-figure.md. Quick to import: a suite is read with it.
Shown by tests/reports/test_reports_catalogue.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from reports.judge.figure import Better, Column, Figure, Files, Form, Kind, Shown, Value
from reports.read.model import CORRECTED, END_TO_END, MISROUTED, QUANTILES, SCHEDULE_LAG, UNCORRECTED, Latency

if TYPE_CHECKING:
    from reports.judge.cell_source import CellSource

LATENCIES: Final[Mapping[str, tuple[str, str]]] = {
    "": (CORRECTED, "corrected latency: acknowledgement minus intended send time"),
    "uncorrected_": (UNCORRECTED, "acknowledgement minus hand-over to the client"),
    "end_to_end_": (END_TO_END, "the consumer's poll minus the intended send time"),
    "schedule_lag_": (SCHEDULE_LAG, "hand-over to the client minus intended time"),
}
LEVELS: Final[Mapping[str, str]] = {
    "p50": "median", "p90": "90th percentile", "p99": "99th percentile", "p999": "99.9th percentile",
    "mean": "mean", "max": "maximum",
}  # fmt: skip
SPANS: Final[Mapping[str, str]] = {  # as the columns of files tell a latency
    CORRECTED: "from the intended send time to the acknowledgement",
    UNCORRECTED: "from the hand-over to the client to the acknowledgement",
    END_TO_END: "from the intended send time to the consumer's poll",
}
_RECOVERY: Final[Mapping[str, str]] = {
    "detect": "from the end of a process by a fault, else from the first fault, until somebody acted on it",
    "elect": "from the end of a process by a fault, else from the first fault, until another leader led",
    "first_ack": "from the first fault until the first acknowledgement after the silence",
    "recover": "from the first fault until the rate was back for good",
}
_TITLES: Final[Mapping[str, str]] = {"p50": "p50", "p99": "p99", "p999": "p99.9", "max": "max"}
_COMPRESSION_TOLD: Final = 0.02  # a ratio this near to 1 is none


def _plan() -> Iterator[Figure]:
    """What the cell is, from its plan."""

    def named(name: str, about: str, read: Callable[[CellSource], Value], unit: str = "") -> Figure:
        return Figure(
            name=name, about=about, read=read, unit=unit, rows="cell.json", kind=Kind.TEXT, files=Files.CSV
        )  # fmt: skip

    yield named("cell_id", "the cell, as in --cell and junit.xml", lambda of: of.facts.cell.cell_id)
    yield named("title", "the cell in words", lambda of: of.facts.cell.title)
    yield named("kind", "sweep, ceiling, chaos or search", lambda of: of.facts.cell.kind)
    yield named("verdict", "pass, fail or inconclusive", lambda of: of.result)
    yield named("client", "the client library's adapter", lambda of: of.record.client)
    yield named("engine", "the kind of cluster", lambda of: of.record.engine)
    yield named("scenario", "name of the chaos scenario", lambda of: of.record.scenario)
    yield named("case", "its case", lambda of: of.record.case)
    yield named("repetition", "number of the repetition, from 1", lambda of: of.record.repetition)
    yield named("fork", "number of the cluster that it ran on, from 1", lambda of: of.record.fork)
    yield named(
        "rate_per_s", "records/s that the schedule asked for, of all producers together",
        lambda of: of.record.workload.rate_per_s, "records/s",
    )  # fmt: skip
    yield named(
        "record_size_bytes", "bytes of a record's value", lambda of: of.record.workload.record_size_bytes, "B"
    )  # fmt: skip


def _speed() -> Iterator[Figure]:
    yield Figure(
        name="throughput_records_per_s",
        about="records acknowledged in the measured window, divided by its length; with acks=0 records found in the "
        "log",
        unit="records/s",
        rows="send, with acks=0 log",
        better=Better.HIGH,
        kind=Kind.NUMBER,
        limit="throughput_per_s",
        read=lambda of: of.facts.throughput_records_per_s,
        column=Column(title="records/s", shown=Shown.ALWAYS),
        title="throughput",
        definition="Acknowledgements that came in the measured window, divided by its length. With acks=0 there are no "
        "acknowledgements, so records count that were due in the window and that the final read found. The 95 % "
        "interval is a moving-block bootstrap over time buckets, of this one run.",
    )
    for end, name in enumerate(("low", "high")):
        yield Figure(
            name=f"throughput_records_per_s_{name}",
            about=f"{'lower' if name == 'low' else 'upper'} end of its 95 % interval",
            unit="records/s",
            rows="send, with acks=0 log",
            files=Files.CSV,
            read=lambda of, end=end: (of.facts.throughput_interval or (None, None))[end],  # type: ignore[misc]
        )
    yield Figure(
        name="capacity_records_per_s",
        about="the rate of the configuration in a cell that sends as fast as it can; without a value: not measured, or "
        "the load generator was the limit",
        unit="records/s",
        rows="send of the cell at the ceiling",
        better=Better.HIGH,
        read=lambda of: of.capacity_records_per_s,
        column=Column(title="capacity"),
        title="capacity",
        definition="The throughput of a cell that sends as fast as it can: a closed loop with many records under way, "
        "and no reader. It is what this host carried, brokers and load generator together. If the generator used 85 % "
        "of the CPU that it can use, it may have been the limit, and no capacity is claimed. A closed loop has no "
        "latency that could be compared, so p99 comes from the cell at the sweep's rate.",
    )
    yield Figure(
        name="own_capacity_records_per_s",
        about="the throughput of a cell that is itself at the ceiling of its sweep",
        unit="records/s",
        rows="send",
        better=Better.HIGH,
        files=Files.NONE,
        limit="capacity_per_s",
        read=lambda of: of.facts.throughput_records_per_s if of.is_ceiling else None,
    )
    yield Figure(
        name="achieved_ratio",
        about="records handed to the client, divided by those that were due",
        rows="send, cell.json",
        better=Better.HIGH,
        files=Files.JSON,
        decimals=4,
        limit="achieved_ratio",
        read=lambda of: of.achieved_ratio,
        title="asked rate sent",
        definition="Records handed to the client, divided by those that were due by the schedule, in the measured "
        "window. With a ramp, steps, a spike, a sine, a replay or Poisson arrivals, the due records are those of the "
        "run log and those never sent. A closed loop has no such figure, because its rate is only an upper limit.",
    )


def _spent() -> Iterator[Figure]:
    yield Figure(
        name="megabytes_per_s",
        about="that throughput in 10^6 bytes of the records' values, before compression",
        unit="MB/s",
        rows="send, with acks=0 log",
        files=Files.CSV,
        read=lambda of: of.volume.mb_per_s,
        column=Column(title="MB/s", form=Form.THREE_DIGITS, shown=Shown.CHOSEN),
        title="MB/s",
        definition="MB are 10^6 bytes of the records' values as the client was given them, before compression.",
    )
    yield Figure(
        name="broker_cpu_ms_per_megabyte",
        about="CPU of all brokers, without their compilers, for 10^6 bytes of the records' values",
        unit="ms/MB",
        rows="stats, send",
        files=Files.CSV,
        read=lambda of: of.volume.broker_cpu_ms_per_mb,
        column=Column(title="CPU ms/MB", form=Form.THREE_DIGITS, shown=Shown.CHOSEN),
        title="CPU per MB",
        definition="CPU of all brokers in the measured window, without the just-in-time compilers of their JVMs, for "
        "10^6 bytes of the records' values.",
    )
    yield Figure(
        name="broker_cpu_us_per_record",
        about="CPU of all brokers for each acknowledged record, without their just-in-time compilers",
        unit="us",
        rows="stats, send",
        better=Better.LOW,
        files=Files.NONE,
        limit="broker_cpu_us_per_record",
        read=lambda of: of.cpu.lasting_us if of.cpu else None,
    )
    yield Figure(
        name="capacity_share",
        about="the rate that was asked, divided by that capacity; without a value: no capacity, or no rate was asked",
        rows="cell.json, send of the cell at the ceiling",
        files=Files.CSV,
        read=lambda of: of.volume.capacity_share,
        column=Column(title="% of cap.", form=Form.PERCENT),
        title="share of capacity",
        definition="The rate that was asked for, divided by the capacity of the same setting in the same repetition. A "
        "p99 at a small share says how fast one record is; near the capacity it says how long the queue is.",
    )
    yield Figure(
        name="host_cpu_share",
        about="CPU of the host in the measured window, by whomever; 1 is all cores",
        rows="stats",
        files=Files.CSV,
        read=lambda of: of.use.host,
        title="host CPU",
        definition="CPU of all cores that was used in the measured window, by whomever, and the part of the load "
        "generator's processes and of the brokers that the harness started. If cores are mostly busy, a record mostly "
        "waits for them, and p99 says little of the setting.",
    )
    yield Figure(
        name="load_cpu_share",
        about="the load generator's part of it; 1 is all cores",
        rows="stats, cell.json",
        files=Files.CSV,
        read=lambda of: of.use.load,
    )


def _latencies() -> Iterator[Figure]:
    """Percentiles in files, in microseconds. They are infinite where they fall on records that never came."""
    for name, _ in QUANTILES:
        yield _percentile(CORRECTED, name)
    yield Figure(
        name="corrected_max_us",
        about=f"maximum, microseconds, {SPANS[CORRECTED]}",
        unit="us",
        rows="send",
        files=Files.CSV,
        read=lambda of: of.told_latency[CORRECTED].max_us,
        column=_latency_column("max", lambda of: of.latency(CORRECTED).max_us),
    )
    yield Figure(
        name="corrected_n",
        about="acknowledged records behind the corrected percentiles",
        unit="records",
        rows="send",
        files=Files.CSV,
        read=lambda of: of.told_latency[CORRECTED].n,
        column=Column(title="n", shown=Shown.CHOSEN, read=lambda of: of.latency(CORRECTED).n),
    )
    for kind in (UNCORRECTED, END_TO_END):
        for name, _ in QUANTILES:
            yield _percentile(kind, name)
    for kind, what in ((CORRECTED, "records due in the window that was acknowledged"),
                       (END_TO_END, "deliveries due in the window that came")):  # fmt: skip
        nothing = "nothing was measured" if kind == CORRECTED else "nobody read"
        yield Figure(
            name=f"{kind}_answered_share",
            about=f"share of the {what}; percentiles above it are `inf`; empty: {nothing}",
            rows="send" if kind == CORRECTED else "send, recv",
            files=Files.CSV,
            decimals=6,
            read=lambda of, kind=kind: of.told_latency[kind].answered_share,  # type: ignore[misc]
        )
    yield Figure(
        name="end_to_end_clock_error_us",
        about="how much an end-to-end latency between two load hosts can be wrong, microseconds: by their clocks; "
        "empty if no record went from one to another",
        unit="us",
        rows="cell.json",
        files=Files.CSV,
        read=lambda of: of.end_to_end_clock_error_us,
    )


def _percentile(kind: str, name: str) -> Figure:
    is_shown = kind == CORRECTED and name in _TITLES
    return Figure(
        name=f"{kind}_{name}_us",
        about=f"{LEVELS[name]}, microseconds, {SPANS[kind]}",
        unit="us",
        rows="send, recv" if kind == END_TO_END else "send",
        files=Files.CSV,
        read=lambda of: of.told_latency[kind].us_of(name),
        column=_latency_column(name, lambda of: of.latency(kind).us_of(name)) if is_shown else None,
    )


def _latency_column(name: str, read: Callable[[CellSource], Value]) -> Column:
    return Column(title=_TITLES[name], form=Form.MS, is_of_pace=True, read=read)


def _damage() -> Iterator[Figure]:
    """Identities of records. What each anomaly is, its rule says."""

    def counted(
        name: str, about: str, *, files: Files = Files.BOTH, title: str = "", rows: str = "send, log"
    ) -> Figure:
        column = Column(title=title, shown=Shown.ALWAYS, read=lambda of: of.facts.predictions[name].observed.count)
        return Figure(
            name=name, about=about, unit="records", rows=rows, kind=Kind.COUNT, files=files,
            read=lambda of: of.facts.set_count(name), column=column if title else None,
        )  # fmt: skip

    yield Figure(
        name="lost",
        about="acknowledged records that the final read did not find; without a value if it was not complete",
        unit="records",
        rows="send, log",
        kind=Kind.COUNT_OR_NULL,
        read=lambda of: of.facts.lost,
        column=Column(title="lost", shown=Shown.ALWAYS),
    )
    yield counted(
        "duplicated", "records that the final read found at two offsets of a partition or more", title="duplicated"
    )
    yield counted(
        "reordered", "records that stand in the log after a later record of the same producer", title="reordered"
    )
    yield counted(MISROUTED, "records that the final read found in the wrong topic or partition", files=Files.CSV)
    yield counted(
        "removed", "records that retention or DeleteRecords took from the log before the final read, lawfully",
        files=Files.CSV, rows="send, recv, log, cluster",
    )  # fmt: skip
    yield counted("recovered", "records without an acknowledgement that the final read found")
    yield counted("unexpected", "records of the log that no producer of the cell sent", files=Files.JSON)
    yield counted("corrupt", "records that do not match their checksum", files=Files.JSON)
    yield counted("dup_delivered", "records that one consumer got twice at the same offset", files=Files.JSON)


def _outcomes() -> Iterator[Figure]:
    def sends(name: str, about: str, *, files: Files = Files.JSON, column: Column | None = None) -> Figure:
        return Figure(
            name=name, about=about, unit="records", rows="send", kind=Kind.COUNT, files=files, limit=name,
            read=lambda of: getattr(of.counts, f"{name}_total"), column=column,
        )  # fmt: skip

    yield sends("sent", "sends of the whole cell")
    yield sends("acked", "acknowledged sends of the whole cell")
    yield sends("failed", "sends of the whole cell that certainly were not appended")
    yield sends(
        "unknown", "sends of the whole cell whose outcome the client does not know",
        files=Files.BOTH, column=Column(title="unknown"),
    )  # fmt: skip
    yield sends(
        "aborted", "sends of the whole cell whose transaction was aborted as the workload planned it",
        files=Files.BOTH, column=Column(title="aborted"),
    )  # fmt: skip
    yield Figure(
        name="in_log", about="records of the final log", unit="records", rows="log", kind=Kind.COUNT,
        files=Files.JSON, read=lambda of: of.counts.log_total,
    )  # fmt: skip
    yield Figure(
        name="received", about="records that consumers got", unit="records", rows="recv", kind=Kind.COUNT,
        files=Files.JSON, read=lambda of: of.counts.received_total,
    )  # fmt: skip


def _service() -> Iterator[Figure]:
    """What a fault did to the service."""
    yield Figure(
        name="gap_ms",
        about="longest time within the measured window without an acknowledgement",
        unit="ms",
        rows="send",
        better=Better.LOW,
        decimals=1,
        limit="gap_ms",
        read=lambda of: _ms(of.facts.gap_us),
        column=Column(title="gap s"),
        title="gap",
        definition="The longest time within the measured window without an acknowledgement to any producer.",
    )
    yield Figure(
        name="gap_clock_error_ms",
        about="with load hosts: how much gap_ms can be wrong by their clocks; gap_ms is left out if it is not above "
        "that",
        unit="ms",
        rows="cell.json",
        kind=Kind.NUMBER_IF_KNOWN,
        read=lambda of: _ms(of.gap_clock_error_us),
    )
    for name, about in _RECOVERY.items():
        yield Figure(
            name=f"{name}_ms", about=about, unit="ms", rows="faults, cluster, send", better=Better.LOW,
            files=Files.NONE, limit=f"{name}_ms",
            read=lambda of, name=name: _ms(getattr(of.recovery, f"{name}_us", None)),  # type: ignore[misc]
        )  # fmt: skip
    yield Figure(
        name="area_record_seconds",
        about="records that were due and not yet acknowledged, summed over time until service was back",
        unit="record-seconds",
        rows="faults, send",
        better=Better.LOW,
        files=Files.NONE,
        limit="area_record_seconds",
        read=lambda of: of.recovery.area_record_seconds if of.recovery else None,
    )


def _log() -> Iterator[Figure]:
    yield Figure(
        name="records_per_batch",
        about="records divided by batches of the final log",
        unit="records",
        rows="batches",
        limit="records_per_batch",
        read=lambda of: of.facts.records_per_batch,
        column=Column(title="rec/batch", digits=1),
        title="records per batch",
        definition="Records divided by batches of the final log, warm-up included.",
    )
    yield Figure(
        name="compression_ratio",
        about="bytes without compression, divided by bytes in the log",
        rows="batches",
        limit="compression_ratio",
        read=lambda of: of.facts.compression_ratio,
        column=Column(title="compr.", digits=2, nothing=1.0, near=_COMPRESSION_TOLD),
        title="compression",
        definition="Bytes that the batches would have without compression, divided by their bytes in the log, headers "
        "included.",
    )
    yield Figure(
        name="batches", about="batches of the final log", rows="batches", kind=Kind.COUNT, files=Files.JSON,
        read=lambda of: of.facts.batches,
    )  # fmt: skip
    yield Figure(
        name="log_bytes", about="bytes of the record batches in the log", unit="B", rows="batches", kind=Kind.COUNT,
        files=Files.JSON, limit="log_bytes", read=lambda of: of.facts.log_bytes,
    )  # fmt: skip


def _latency_limits() -> Iterator[Figure]:
    """Latencies as limits name them, in milliseconds."""
    for prefix, (kind, about) in LATENCIES.items():
        for level, words in LEVELS.items():
            yield Figure(
                name=f"{prefix}{level}_ms",
                about=f"{about}; {words}",
                unit="ms",
                rows="send, recv" if kind == END_TO_END else "send",
                better=Better.LOW,
                files=Files.NONE,
                limit=f"{prefix}{level}_ms",
                read=lambda of, kind=kind, level=level: _latency_ms(of.latency(kind), level),  # type: ignore[misc]
            )


def _latency_ms(latency: Latency, level: str) -> float | None:
    """A record that never came is the latest of all, and no mean with it is finite."""
    if level in ("mean", "max"):
        of_answered = latency.mean_us if level == "mean" else latency.max_us
        return float("inf") if latency.unanswered and level not in latency.beyond_clocks else _ms(of_answered)
    return _ms(latency.us_of(level))


def _ms(value_us: float | None) -> float | None:
    return None if value_us is None else value_us / 1000


CATALOGUE: Final[tuple[Figure, ...]] = (
    *_plan(), *_speed(), *_spent(), *_latencies(), *_damage(), *_outcomes(), *_service(), *_log(), *_latency_limits(),
)  # fmt: skip
IN_CSV: Final = tuple(figure for figure in CATALOGUE if Files.CSV in figure.files)
IN_JSON: Final = tuple(figure for figure in CATALOGUE if Files.JSON in figure.files)
COLUMNS: Final[Mapping[str, Figure]] = {figure.name: figure for figure in CATALOGUE if figure.column is not None}
BY_LIMIT: Final[Mapping[str, Figure]] = {figure.limit: figure for figure in CATALOGUE if figure.limit}
EXPLAINED: Final = tuple(figure for figure in CATALOGUE if figure.title)
