"""What client and brokers did in a cell: batches, fill, requests, waits, retries, CPU. It explains why a setting acts.

Clients name their figures differently. Only `client_figures` knows these names. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from reports.figures.statistics.bootstrap import log_standard_error
from reports.judge.broker_cpu import BrokerCpu, broker_cpu
from reports.read.model import CellFacts
from runlog.records.stats import ClientSample
from runlog.records.sweep import Behaviour

BATCH_SIZE: Final = "batch.size"
_ACCUMULATED_RECORDS: Final = "record-accumulate-total"
_ACCUMULATED_MS: Final = "record-accumulate-time-total"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFigures:
    """The last figures of all producers of a cell; None where no client tells. Counts are added up over producers."""

    records: float | None
    requests: float | None
    retries: float | None
    batches: float | None
    bytes: float | None
    buffer_wait_ns: float | None
    # Means over the producers.
    queue_ms: float | None
    request_ms: float | None
    batch_bytes: float | None


def behaviour_of(facts: CellFacts) -> Behaviour:
    client, record = client_figures(facts), facts.cell.record
    health = record.outcome.health
    per_request = client.records / client.requests if client.records and client.requests else None
    cpu = broker_cpu(facts)
    share, rate = health.cpu_share, facts.throughput_records_per_s
    batch_size = _float(facts.cell.effective_client.get(BATCH_SIZE))
    batch_bytes = client.batch_bytes or (facts.log_bytes / facts.batches if facts.batches else None)
    in_log = facts.counts.log_total
    return Behaviour(
        records_per_batch=facts.records_per_batch,
        fill=batch_bytes / batch_size if batch_bytes and batch_size else None,
        records_per_request=per_request,
        requests_per_s=rate / per_request if per_request and rate else None,
        queue_ms=client.queue_ms,
        request_ms=client.request_ms,
        retries=client.retries,
        buffer_wait_ms=None if client.buffer_wait_ns is None else client.buffer_wait_ns / 1e6,
        backpressure_sends=_float(health.backpressure_sends),
        compression_ratio=facts.compression_ratio,
        # The batches as they lie in the log are what crossed the wire, except for a few bytes of each request.
        wire_bytes_per_record=facts.log_bytes / in_log if in_log and facts.log_bytes else None,
        broker_cpu_us_per_record=cpu.whole_us if cpu else None,
        broker_cpu_without_compiler_us_per_record=cpu.lasting_us if cpu else None,
        broker_cpu_log_error=_cpu_log_error(cpu, record.seed or 0) if cpu else None,
        compiler_us_per_record=cpu.compiler_us if cpu else None,
        collector_us_per_record=cpu.collector_us if cpu else None,
        client_cpu_us_per_record=share * 1e6 / rate if share and rate else None,
    )


def _cpu_log_error(cpu: BrokerCpu, seed: int) -> float | None:
    """Standard error of ln(CPU per record without the compiler) inside this one cell."""
    return log_standard_error(np.array(cpu.lasting_s, dtype=np.float64), seed)


def client_figures(facts: CellFacts) -> ClientFigures:
    last: dict[tuple[str, str], Mapping[str, object]] = {}
    for sample in _client_samples(facts):
        for producer, metrics in sample.by_producer().items():
            last[sample.source, producer] = metrics

    def told(*names: str) -> list[float]:
        """The figure of each producer, by the first of its names that the client reports."""
        return [value for metrics in last.values() if (value := _first(metrics, names)) is not None]

    return ClientFigures(
        records=_sum(told("record-send-total", "records_sent")),
        requests=_sum(told("request-total", "requests")),
        retries=_sum(told("record-retry-total", "retries")),
        batches=_sum(told("batch-total", "batches")),
        bytes=_sum(told("outgoing-byte-total", "bytes_sent")),
        buffer_wait_ns=_sum(told("bufferpool-wait-time-ns-total")),
        queue_ms=_mean(told("record-queue-time-avg")),
        request_ms=_mean(told("request-latency-avg")),
        batch_bytes=_mean(told("batch-size-avg", "batch_size_bytes_avg")),
    )


def mean_record_queue_us(facts: CellFacts) -> float | None:
    """How long the average record of the measured window waited in its client before it was sent, in microseconds.

    None if the client does not count it by records. Kafka's record-queue-time-avg counts batches. A batch waits from
    its first record on, so this is longer than its records wait on average. The counters are those of the last sample
    before the window and of the first after it.
    """
    start_us, end_us = facts.cell.window_us()
    samples: dict[tuple[str, str], list[tuple[int, float, float]]] = {}
    for sample in _client_samples(facts):
        for producer, metrics in sample.by_producer().items():
            records, waited_ms = _float(metrics.get(_ACCUMULATED_RECORDS)), _float(metrics.get(_ACCUMULATED_MS))
            if records is not None and waited_ms is not None:
                samples.setdefault((sample.source, producer), []).append((sample.t_us, records, waited_ms))
    count, sum_ms = 0.0, 0.0
    for own in samples.values():
        own.sort()
        _, count_before, sum_before = max((one for one in own if one[0] <= start_us), default=(0, 0.0, 0.0))
        _, count_after, sum_after = min((one for one in own if one[0] >= end_us), default=own[-1])
        count += count_after - count_before
        sum_ms += sum_after - sum_before
    return sum_ms / count * 1000 if count > 0 else None


def _client_samples(facts: CellFacts) -> Iterator[ClientSample]:
    return (sample for sample in facts.cell.samples if isinstance(sample, ClientSample))


def _first(metrics: Mapping[str, object], names: Sequence[str]) -> float | None:
    return next((number for name in names if (number := _float(metrics.get(name))) is not None), None)


def _sum(values: Sequence[float]) -> float | None:
    return sum(values) if values else None


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _float(value: object) -> float | None:
    """Metrics are numbers or texts, as each library gives them."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None
