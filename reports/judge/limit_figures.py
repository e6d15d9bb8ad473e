"""The figures that a limit may name: their names, units and directions, in words. Pure, and quick to import.

How each is read from a cell is in `limits.py`. Shown by tests/reports/test_reports_limits.py, and on
docs/reference/limits.md, which `python -m reports.judge.limit_page` writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reports.judge.anomalies import ANOMALIES
from reports.read.model import CORRECTED, END_TO_END, SCHEDULE_LAG, UNCORRECTED


class Better(StrEnum):
    """The better direction of a figure. A disturbance of the host moves a figure in the worse direction."""

    LOW = "low"
    HIGH = "high"
    NEITHER = ""  # a disturbed host does not change it


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitFigure:
    name: str
    unit: str
    about: str
    better: Better = Better.NEITHER


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
RECOVERY_TIMES: Final[Mapping[str, str]] = {
    "detect_ms": "from the end of a process by a fault, else from the first fault, until somebody acted on it",
    "elect_ms": "from the end of a process by a fault, else from the first fault, until another leader led",
    "first_ack_ms": "from the first fault until the first acknowledgement after the silence",
    "recover_ms": "from the first fault until the rate was back for good",
}
THROUGHPUT: Final = "throughput_per_s"
CAPACITY: Final = "capacity_per_s"
SYNONYMS: Final[Mapping[str, str]] = {"throughput": THROUGHPUT, "capacity": CAPACITY}
_COUNTS: Final[Mapping[str, str]] = {
    "sent": "sends of the whole cell",
    "acked": "acknowledged sends of the whole cell",
    "failed": "sends that certainly were not appended",
    "unknown": "sends whose fate the client cannot know",
}


def _figures() -> Iterator[LimitFigure]:
    for prefix, (_, about) in LATENCIES.items():
        for level, words in LEVELS.items():
            yield LimitFigure(name=f"{prefix}{level}_ms", unit="ms", about=f"{about}; {words}", better=Better.LOW)
    yield LimitFigure(
        name=THROUGHPUT, unit="records/s", better=Better.HIGH,
        about="acknowledged in the measured window, over its length (`throughput` means the same)",
    )  # fmt: skip
    yield LimitFigure(
        name=CAPACITY, unit="records/s", better=Better.HIGH,
        about="the same in a cell at the ceiling of its sweep (`capacity` means the same)",
    )  # fmt: skip
    yield LimitFigure(
        name="achieved_ratio", unit="", better=Better.HIGH, about="records handed to the client over records due"
    )
    yield LimitFigure(
        name="gap_ms", unit="ms", better=Better.LOW, about="longest time without an acknowledgement in the window"
    )
    for name, about in RECOVERY_TIMES.items():
        yield LimitFigure(name=name, unit="ms", about=about, better=Better.LOW)
    yield LimitFigure(
        name="area_record_seconds", unit="record-seconds", better=Better.LOW,
        about="records that were due and not yet acknowledged, summed over time until service was back",
    )  # fmt: skip
    yield LimitFigure(
        name="broker_cpu_us_per_record", unit="us", better=Better.LOW,
        about="CPU of all brokers for each acknowledged record, without their just-in-time compilers",
    )  # fmt: skip
    yield LimitFigure(name="records_per_batch", unit="records", about="records over batches of the final log")
    yield LimitFigure(name="compression_ratio", unit="", about="bytes without compression over bytes in the log")
    yield LimitFigure(name="log_bytes", unit="B", about="bytes of the record batches in the log")
    for name, about in _COUNTS.items():
        yield LimitFigure(name=name, unit="records", about=about)
    for anomaly in ANOMALIES:
        yield LimitFigure(name=anomaly.name, unit="records or cases", about=f"{anomaly.title}: {anomaly.rule}")


FIGURES: Final[Mapping[str, LimitFigure]] = {figure.name: figure for figure in _figures()}
COUNTED: Final = (*_COUNTS, "log_bytes", *(anomaly.name for anomaly in ANOMALIES))  # they can be added up
FOUND_RATE: Final = "found_rate_per_s"
RUN_FIGURES: Final[Mapping[str, LimitFigure]] = {
    FOUND_RATE: LimitFigure(
        name=FOUND_RATE, unit="records/s", better=Better.HIGH, about="the highest rate that the run's search found"
    )
}
