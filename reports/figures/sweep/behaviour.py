"""What client and brokers did in a cell: batches, fill, requests, waits, retries, CPU. It explains why a setting acts.

Clients name their figures differently; the table below is the only place that knows. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from reports.figures.statistics.bootstrap import log_standard_error
from reports.judge.broker_cpu import BrokerCpu, broker_cpu
from reports.read.cell import Json
from reports.read.model import CellFacts

# Our name -> the names that clients give it; figures of several producers are added up, unless named in _AVERAGES.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "records": ("record-send-total", "records_sent"),
    "requests": ("request-total", "requests"),
    "retries": ("record-retry-total", "retries"),
    "batches": ("batch-total", "batches"),
    "bytes": ("outgoing-byte-total", "bytes_sent"),
    "queue_ms": ("record-queue-time-avg",),
    "request_ms": ("request-latency-avg",),
    "batch_bytes": ("batch-size-avg", "batch_size_bytes_avg"),
    "buffer_wait_ns": ("bufferpool-wait-time-ns-total",),
}
_AVERAGES = ("queue_ms", "request_ms", "batch_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """None where neither client nor host told."""

    records_per_batch: float | None
    fill: float | None  # bytes of a batch over batch.size
    records_per_request: float | None
    requests_per_s: float | None
    queue_ms: float | None  # accumulation: linger, and waiting for a free request
    request_ms: float | None
    retries: float | None
    buffer_wait_ms: float | None
    backpressure_sends: float | None
    compression_ratio: float | None
    wire_bytes_per_record: float | None
    broker_cpu_us_per_record: float | None  # whole
    broker_cpu_without_compiler_us_per_record: float | None  # the whole too where there is no compiler to tell
    broker_cpu_log_error: float | None  # of the figure without the compiler
    compiler_us_per_record: float | None
    collector_us_per_record: float | None
    client_cpu_us_per_record: float | None


def behaviour_of(facts: CellFacts) -> Behaviour:
    client = client_figures(facts)
    records, requests = client.get("records"), client.get("requests")
    per_request = records / requests if records and requests else None
    cpu = broker_cpu(facts)
    health = facts.cell.outcome.get("health") or {}
    share = _float(health.get("cpu_share"))
    rate = facts.throughput_records_per_s
    batch_size = _float(facts.cell.effective_client.get("batch.size"))
    batch_bytes = client.get("batch_bytes") or (facts.log_bytes / facts.batches if facts.batches else None)
    in_log = facts.counts.log_total
    wait_ns = client.get("buffer_wait_ns")
    return Behaviour(
        records_per_batch=facts.records_per_batch,
        fill=batch_bytes / batch_size if batch_bytes and batch_size else None,
        records_per_request=per_request,
        requests_per_s=rate / per_request if per_request and rate else None,
        queue_ms=client.get("queue_ms"),
        request_ms=client.get("request_ms"),
        retries=client.get("retries"),
        buffer_wait_ms=None if wait_ns is None else wait_ns / 1e6,
        backpressure_sends=_float(health.get("backpressure_sends")),
        compression_ratio=facts.compression_ratio,
        # The batches as they lie in the log are what crossed the wire, but for a few bytes a request.
        wire_bytes_per_record=facts.log_bytes / in_log if in_log and facts.log_bytes else None,
        broker_cpu_us_per_record=cpu.whole_us if cpu else None,
        broker_cpu_without_compiler_us_per_record=cpu.lasting_us if cpu else None,
        broker_cpu_log_error=_cpu_log_error(cpu, int(facts.cell.document.get("seed") or 0)) if cpu else None,
        compiler_us_per_record=cpu.compiler_us if cpu else None,
        collector_us_per_record=cpu.collector_us if cpu else None,
        client_cpu_us_per_record=share * 1e6 / rate if share and rate else None,
    )


def _cpu_log_error(cpu: BrokerCpu, seed: int) -> float | None:
    """Standard error of ln(CPU per record without the compiler) inside this one cell."""
    return log_standard_error(np.array(cpu.lasting_s, dtype=np.float64), seed)


def client_figures(facts: CellFacts) -> dict[str, float]:
    """The last figures of all producers of the cell under our names."""
    last: dict[str, Json] = {}
    for line in facts.cell.stats:
        if line.get("name") == "client" and isinstance(line.get("values"), dict):
            source = str(line.get("source", ""))
            for producer, values in line["values"].items():
                if isinstance(values, dict):
                    last[f"{source}/{producer}"] = values
    result: dict[str, float] = {}
    for name, aliases in _NAMES.items():
        found = [value for values in last.values() if (value := _first(values, aliases)) is not None]
        if found:
            result[name] = float(np.mean(found)) if name in _AVERAGES else sum(found)
    return result


def mean_record_queue_us(facts: CellFacts) -> float | None:
    """What the average record of the measured window waited in its client before it was sent, in microseconds.

    None where a client does not count it by records: Kafka's record-queue-time-avg is that of batches, which begins
    with the first record of each, so it is longer than what their records wait on average. The counters are those of
    the last sample before the window and of the first after it.
    """
    start_us, end_us = facts.cell.window_us()
    samples: dict[str, list[tuple[int, float, float]]] = {}
    for line in facts.cell.stats:
        if line.get("name") != "client" or not isinstance(line.get("values"), dict):
            continue
        for producer, values in line["values"].items():
            if not isinstance(values, dict):
                continue
            count, sum_ms = (
                _float(values.get("record-accumulate-total")),
                _float(values.get("record-accumulate-time-total")),
            )
            if count is not None and sum_ms is not None:
                name = f"{line.get('source', '')}/{producer}"
                samples.setdefault(name, []).append((int(line.get("t_us", -1)), count, sum_ms))
    count, sum_ms = 0.0, 0.0
    for own in samples.values():
        own.sort()
        _, count_before, sum_before = max((one for one in own if one[0] <= start_us), default=(0, 0.0, 0.0))
        _, count_after, sum_after = min((one for one in own if one[0] >= end_us), default=own[-1])
        count += count_after - count_before
        sum_ms += sum_after - sum_before
    return sum_ms / count * 1000 if count > 0 else None


def _first(values: Mapping[str, object], aliases: tuple[str, ...]) -> float | None:
    return next((number for alias in aliases if (number := _float(values.get(alias))) is not None), None)


def _float(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None
