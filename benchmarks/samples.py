"""What is measured and what is made of it: shapes, samples, medians, ratios against the aims. Pure.

Shown by tests/benchmarks/test_benchmarks_samples.py.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Engine = Literal["reference", "kafka"]
Operation = Literal["produce", "consume"]
ENGINES: Final[tuple[Engine, ...]] = ("reference", "kafka")
OPERATIONS: Final[tuple[Operation, ...]] = ("produce", "consume")

BATCH_NAMES: Final[Mapping[int, str]] = {16_384: "16 KiB", 131_072: "128 KiB", 1_000_000: "1 MB"}
CONSUME_AIM: Final = 1.0  # times Apache Kafka
CPU_AIM: Final = 1 / 3  # of Apache Kafka's CPU seconds per GB, three brokers
START_AIM_S: Final = 1.5  # three brokers up and answering

WARM_UP_WINDOW: Final = 3  # loads without a new best figure end the warm-up
WARM_UP_GAIN: Final = 1.05  # a new best counts from 5 % on: less is noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A cluster and how it is written to. `produce_aims`: batch bytes to the rate aimed at, in times Apache Kafka."""

    name: str
    brokers: int
    acks: str
    produce_aims: Mapping[int, float]

    @property
    def topic_config(self) -> dict[str, str]:
        return {"min.insync.replicas": "2"} if self.brokers >= 3 else {}


ONE: Final = Shape(
    name="1 broker, acks=1", brokers=1, acks="1", produce_aims={16_384: 3.0, 131_072: 2.5, 1_000_000: 2.0}
)
THREE: Final = Shape(
    name="3 brokers, RF 3, acks=all", brokers=3, acks="all", produce_aims={16_384: 3.0, 131_072: 3.0, 1_000_000: 2.0}
)
SHAPES: Final = (ONE, THREE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One load. 1 MB is 10^6 and 1 GB 10^9 bytes of record values. Round 0 is not counted."""

    shape: str
    engine: Engine
    operation: Operation
    batch_bytes: int
    round_number: int
    mb_per_s: float
    broker_cpu_s_per_gb: float
    client_cpu_s_per_gb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Median with the smallest and the largest of `count` samples; beyond 5 samples a quantile would say more."""

    median: float
    minimum: float
    maximum: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One line of the table: both engines at the same work. Ratios are reference / Apache Kafka, of the medians."""

    shape: str
    operation: Operation
    batch_bytes: int
    rate: Mapping[Engine, Spread]
    broker_cpu: Mapping[Engine, Spread]
    rate_ratio: float
    rate_aim: float
    cpu_ratio: float
    cpu_aim: float | None  # None: no aim is set for this work


def has_stopped_rising(figures: Sequence[float]) -> bool:
    """True when none of the last three is 5 % better than the best one before them."""
    if len(figures) <= WARM_UP_WINDOW:
        return False
    return max(figures[-WARM_UP_WINDOW:]) < WARM_UP_GAIN * max(figures[:-WARM_UP_WINDOW])


def spread(values: Iterable[float]) -> Spread:
    found = sorted(values)
    assert found, "no samples, no spread"
    return Spread(median=statistics.median(found), minimum=found[0], maximum=found[-1], count=len(found))


def compare(samples: Sequence[Sample], shapes: Sequence[Shape] = SHAPES) -> list[Comparison]:
    """One per shape, operation and batch size that both engines have counted samples of."""
    lines = []
    for shape in shapes:
        for operation in OPERATIONS:
            for batch_bytes in shape.produce_aims:
                line = _compare_one(samples, shape, operation, batch_bytes)
                if line is not None:
                    lines.append(line)
    return lines


def _compare_one(samples: Sequence[Sample], shape: Shape, operation: Operation, batch_bytes: int) -> Comparison | None:
    by_engine: dict[Engine, list[Sample]] = {engine: [] for engine in ENGINES}
    for sample in samples:
        work = (sample.shape, sample.operation, sample.batch_bytes)
        if work == (shape.name, operation, batch_bytes) and sample.round_number > 0:
            by_engine[sample.engine].append(sample)
    if not all(by_engine.values()):
        return None
    rate = {engine: spread(each.mb_per_s for each in found) for engine, found in by_engine.items()}
    cpu = {engine: spread(each.broker_cpu_s_per_gb for each in found) for engine, found in by_engine.items()}
    return Comparison(
        shape=shape.name,
        operation=operation,
        batch_bytes=batch_bytes,
        rate=rate,
        broker_cpu=cpu,
        rate_ratio=_ratio(rate),
        rate_aim=shape.produce_aims[batch_bytes] if operation == "produce" else CONSUME_AIM,
        cpu_ratio=_ratio(cpu),
        cpu_aim=CPU_AIM if operation == "produce" and shape.brokers == 3 else None,
    )


def _ratio(of: Mapping[Engine, Spread]) -> float:
    # A load so short that the kernel's 10 ms clock saw no CPU time has no ratio.
    return of["reference"].median / of["kafka"].median if of["kafka"].median > 0 else float("nan")
