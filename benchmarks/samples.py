"""What is measured, and the figures computed from it: shapes, loads, samples, medians, ratios and their aims. Pure.

Shown by tests/benchmarks/test_benchmarks_samples.py.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

Engine = Literal["reference", "kafka"]
Operation = Literal["produce", "consume"]
ENGINES: Final[tuple[Engine, ...]] = ("reference", "kafka")
OPERATIONS: Final[tuple[Operation, ...]] = ("produce", "consume")

BATCH_NAMES: Final[Mapping[int, str]] = {16_384: "16 KiB", 131_072: "128 KiB", 1_000_000: "1 MB"}
CONSUME_AIM: Final = 1.0  # times Apache Kafka
CPU_AIM: Final = 1 / 3  # A share of Apache Kafka's CPU seconds per GB, with three brokers.
C_CLIENT_CPU_AIM: Final = 0.4  # the same where a follower's fetch carries one batch
START_AIM_S: Final = 1.5  # three brokers up and answering
PRODUCER_AIM: Final = 1.2  # times confluent-kafka from Python

WARM_UP_WINDOW: Final = 3  # loads without a new best figure end the warm-up
WARM_UP_GAIN: Final = 1.05  # a new best counts from 5 % on: less is noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A cluster and how it is written to."""

    name: str
    brokers: int
    acks: str

    @property
    def topic_config(self) -> dict[str, str]:
        return {"min.insync.replicas": "2"} if self.brokers >= 3 else {}


ONE: Final = Shape(name="1 broker, acks=1", brokers=1, acks="1")
THREE: Final = Shape(name="3 brokers, RF 3, acks=all", brokers=3, acks="all")
SHAPES: Final = (ONE, THREE)

# By the number of brokers and batch bytes: the rate aimed at, in times Apache Kafka.
Aims = Mapping[int, Mapping[int, float]]
PRODUCE_AIMS: Final[Aims] = {
    1: {16_384: 3.0, 131_072: 2.5, 1_000_000: 2.0},
    3: {16_384: 3.0, 131_072: 3.0, 1_000_000: 2.0},
}
C_CLIENT_AIMS: Final[Aims] = {3: {16_384: 2.5, 131_072: 2.5, 1_000_000: 2.0}}
Program = Literal["replay", "python", "c"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One kind of load, by one of three programs: the prepared batches of replay.py, or librdkafka from Python
    (load.py) or from C (c_client.c).

    With `produce_aims`, reading is aimed at too, and with three brokers processor time: `cpu_aim`, a share of Apache
    Kafka's.
    """

    name: str
    section: str
    operations: tuple[Operation, ...] = ("produce",)
    batches: tuple[int, ...] = (131_072,)
    program: Program = "replay"
    produce_aims: Aims = field(default_factory=dict)
    cpu_aim: float = CPU_AIM
    record_bytes: int = 1024
    codec: str = "none"
    partitions: int = 1
    connections: int = 2
    window: int = 5
    rounds_max: int | None = None  # where a round takes long
    # The key is the batch size, where the run's load is too long.
    bytes_max: Mapping[int, int] = field(default_factory=dict)
    topic_config: Mapping[str, str] = field(default_factory=dict)

    def bytes_of(self, load_bytes: int, batch_bytes: int) -> int:
        return min(load_bytes, self.bytes_max.get(batch_bytes, load_bytes))


_ALL: Final = (16_384, 131_072, 1_000_000)
_SHORTER: Final = {16_384: 128_000_000}
# Apache Kafka maps two index files of 10 MiB a partition. The first write to one reads as far ahead as the host is
# set to: with read_ahead_kb=8192, 16 GB of zeros for 1,000 partitions, and a load would show little else.
_SMALL_INDEXES: Final = {"segment.index.bytes": "131072"}
C_CLIENT: Final = Load(name="C client", section="c-client", operations=OPERATIONS, batches=_ALL, program="c",
                       produce_aims=C_CLIENT_AIMS, cpu_aim=C_CLIENT_CPU_AIM, bytes_max=_SHORTER)  # fmt: skip
LIGHT: Final = Load(name="prepared batches", section="throughput", operations=OPERATIONS, batches=_ALL,
                    produce_aims=PRODUCE_AIMS, bytes_max=_SHORTER)  # fmt: skip
LIBRDKAFKA: Final = Load(name="librdkafka", section="librdkafka", operations=OPERATIONS, batches=_ALL, program="python",
                         produce_aims=PRODUCE_AIMS, bytes_max=_SHORTER)  # fmt: skip
LOADS: Final[tuple[Load, ...]] = (
    C_CLIENT,
    LIGHT,
    LIBRDKAFKA,
    *(
        Load(name=f"codec {codec}", section="codecs", codec=codec, bytes_max={131_072: 128_000_000})
        for codec in ("gzip", "snappy", "lz4", "zstd")
    ),
    Load(name="100-byte records", section="small-records", batches=(16_384,), record_bytes=100, bytes_max=_SHORTER),
    Load(name="500 connections", section="connections", batches=(16_384,), connections=500, window=1,
         bytes_max=_SHORTER),
    Load(name="1,000 partitions", section="partitions", batches=(16_384,), partitions=1000, connections=6,
         rounds_max=3, bytes_max=_SHORTER, topic_config=_SMALL_INDEXES),
)  # fmt: skip


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
    load: str = LIGHT.name


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
    load: str
    operation: Operation
    batch_bytes: int
    rate: Mapping[Engine, Spread]
    broker_cpu: Mapping[Engine, Spread]
    rate_ratio: float
    rate_aim: float | None  # None: no aim is set for this work
    cpu_ratio: float
    cpu_aim: float | None


@dataclass(slots=True, kw_only=True)
class Paired:
    """A figure, taken on both sides in turns. Less is better; with `is_rate` more is better.

    `aim` is for the ratio of ours to theirs, `limit` for our own median.
    """

    section: str
    name: str
    unit: str
    aim: float | None = None
    limit: float | None = None
    is_rate: bool = False
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return ratio_of(statistics.median(self.ours), statistics.median(self.theirs))

    @property
    def is_reached(self) -> bool | None:
        """None: nothing is aimed at."""
        if self.limit is not None:
            return statistics.median(self.ours) <= self.limit
        if self.aim is None:
            return None
        return self.ratio >= self.aim if self.is_rate else self.ratio <= self.aim


def has_stopped_rising(figures: Sequence[float]) -> bool:
    """True when none of the last three is 5 % better than the best one before them."""
    if len(figures) <= WARM_UP_WINDOW:
        return False
    return max(figures[-WARM_UP_WINDOW:]) < WARM_UP_GAIN * max(figures[:-WARM_UP_WINDOW])


def spread(values: Iterable[float]) -> Spread:
    found = sorted(values)
    assert found, "no samples, no spread"
    return Spread(median=statistics.median(found), minimum=found[0], maximum=found[-1], count=len(found))


def compare(
    samples: Sequence[Sample], shapes: Sequence[Shape] = SHAPES, loads: Sequence[Load] = LOADS
) -> list[Comparison]:
    """One per load, shape, operation and batch size that both engines have counted samples of."""
    lines = []
    for load in loads:
        for shape in shapes:
            for operation in load.operations:
                for batch_bytes in load.batches:
                    line = _compare_one(samples, shape, load, operation, batch_bytes)
                    if line is not None:
                        lines.append(line)
    return lines


def _compare_one(
    samples: Sequence[Sample], shape: Shape, load: Load, operation: Operation, batch_bytes: int
) -> Comparison | None:
    by_engine: dict[Engine, list[Sample]] = {engine: [] for engine in ENGINES}
    for sample in samples:
        work = (sample.shape, sample.load, sample.operation, sample.batch_bytes)
        if work == (shape.name, load.name, operation, batch_bytes) and sample.round_number > 0:
            by_engine[sample.engine].append(sample)
    if not all(by_engine.values()):
        return None
    rate = {engine: spread(each.mb_per_s for each in found) for engine, found in by_engine.items()}
    cpu = {engine: spread(each.broker_cpu_s_per_gb for each in found) for engine, found in by_engine.items()}
    is_produce = operation == "produce"
    aims = load.produce_aims.get(shape.brokers, {})
    is_aimed_at = bool(load.produce_aims)
    return Comparison(
        shape=shape.name,
        load=load.name,
        operation=operation,
        batch_bytes=batch_bytes,
        rate=rate,
        broker_cpu=cpu,
        rate_ratio=_ratio(rate),
        rate_aim=aims.get(batch_bytes) if is_produce else CONSUME_AIM if is_aimed_at else None,
        cpu_ratio=_ratio(cpu),
        cpu_aim=load.cpu_aim if is_aimed_at and is_produce and shape.brokers == 3 else None,
    )


def _ratio(of: Mapping[Engine, Spread]) -> float:
    return ratio_of(of["reference"].median, of["kafka"].median)


def ratio_of(ours: float, theirs: float) -> float:
    # A load so short that the kernel's 10 ms clock saw no CPU time has no ratio.
    return ours / theirs if theirs > 0 else float("nan")
