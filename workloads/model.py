"""The model of a load: the workload of a cell, and the plan that `python -m workloads` reads. No I/O, no Locust.

Units are in the names. Unknown keys are errors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator, model_validator

from runlog.records.workload import READ_COMMITTED
from runlog.streams.inflight import RING_SLOTS
from runlog.streams.payload import HEADER_BYTES
from workloads.clients import client_names, is_client
from workloads.reader_group import ReaderGroup, StrictModel, property_text

KeyDistribution = Literal["none", "uniform", "zipf", "hot"]
RECORD_SIZE_BYTES_DEFAULT = 1024
COMPRESSIBILITY_DEFAULT = 0.5
RATE_MAX_PER_S = 10_000_000
ISOLATION: Final = "isolation.level"


class Constant(StrictModel):
    """`rate_per_s` of the workload throughout."""

    kind: Literal["constant"] = "constant"


class Step(StrictModel):
    rate_per_s: float = Field(ge=0)
    duration_ms: int = Field(gt=0)


class Steps(StrictModel):
    """One rate after the other; the last one lasts until the end."""

    kind: Literal["steps"]
    steps: tuple[Step, ...] = Field(min_length=1)


class Ramp(StrictModel):
    """The rate changes from one value to another in a straight line over the measured window."""

    kind: Literal["ramp"]
    from_rate_per_s: float = Field(ge=0)
    to_rate_per_s: float = Field(ge=0)


class Spike(StrictModel):
    """The workload's rate, except for a spell at another."""

    kind: Literal["spike"]
    spike_rate_per_s: float = Field(ge=0)
    at_ms: int = Field(ge=0)
    duration_ms: int = Field(gt=0)


class Sine(StrictModel):
    """The workload's rate plus and minus `amplitude_share` of it."""

    kind: Literal["sine"]
    amplitude_share: float = Field(default=0.5, ge=0, le=1)
    period_ms: int = Field(gt=0)


class Poisson(StrictModel):
    """Independent arrivals with the workload's mean rate."""

    kind: Literal["poisson"]


class Replay(StrictModel):
    """Arrivals as recorded: milliseconds from the start of the measured window, ascending; here or in a file with one
    number a line. Faster or slower with `speed`."""

    kind: Literal["replay"]
    times_ms: tuple[float, ...] = Field(default=(), max_length=10_000_000)
    file: Path | None = None
    speed: float = Field(default=1.0, gt=0, le=1_000)

    @model_validator(mode="after")
    def _ascending(self) -> Replay:
        if bool(self.times_ms) == (self.file is not None):
            raise ValueError("give either times_ms or file")
        if any(later < earlier for earlier, later in zip(self.times_ms, self.times_ms[1:], strict=False)):
            raise ValueError("times_ms must ascend")
        if self.times_ms and self.times_ms[0] < 0:
            raise ValueError("times_ms must not be negative")
        return self


class Closed(StrictModel):
    """Closed loop: a record is sent when an earlier one is done. At most `outstanding` are under way per producer, and
    `rate_per_s` is only an upper limit. A stall of the cluster then stops the load too, so it does not show in the
    latencies. Such cells are labelled, and their latencies are not comparable with those of an open loop."""

    kind: Literal["closed"]
    outstanding: int = Field(ge=1, le=RING_SLOTS)


Schedule = Annotated[Constant | Steps | Ramp | Spike | Sine | Poisson | Replay | Closed, Field(discriminator="kind")]
_SizeBytes = Annotated[int, Field(ge=HEADER_BYTES, le=64 * 1024 * 1024)]


class UniformSizes(StrictModel):
    """Every size between the two alike."""

    kind: Literal["uniform"]
    low_bytes: _SizeBytes
    high_bytes: _SizeBytes

    @model_validator(mode="after")
    def _ordered(self) -> UniformSizes:
        if self.low_bytes > self.high_bytes:
            raise ValueError(f"low_bytes is {self.low_bytes}, more than high_bytes, which is {self.high_bytes}")
        return self


class LognormalSizes(StrictModel):
    """Many small records and few large ones: half are below `median_bytes`, one in six above median * e**sigma."""

    kind: Literal["lognormal"]
    median_bytes: _SizeBytes
    sigma: float = Field(gt=0, le=4)
    high_bytes: _SizeBytes = 1_000_000


class WeightedSize(StrictModel):
    size_bytes: _SizeBytes
    weight: float = Field(gt=0)


class ListedSizes(StrictModel):
    """These sizes, each in proportion to its weight."""

    kind: Literal["list"]
    sizes: tuple[WeightedSize, ...] = Field(min_length=1, max_length=10_000)


Sizes = Annotated[UniformSizes | LognormalSizes | ListedSizes, Field(discriminator="kind")]


class OwnUsers(StrictModel):
    """Users of somebody's locustfile, which run beside the producers and readers of the cell."""

    file: Path = Field(description="a locustfile; its requests come into the report")
    users: int = Field(default=1, ge=1, le=10_000)
    spawn_rate: float = Field(default=100.0, gt=0, le=10_000, description="users that start in a second")


class Workload(StrictModel):
    """The load of one cell. The rate is that of all producers together. They share one schedule and take its records in
    turn."""

    rate_per_s: float = Field(gt=0, le=RATE_MAX_PER_S)
    record_size_bytes: int = Field(default=RECORD_SIZE_BYTES_DEFAULT, ge=HEADER_BYTES, le=64 * 1024 * 1024)
    sizes: Sizes | None = Field(default=None, description="a distribution, instead of record_size_bytes")
    compressibility: float = Field(
        default=COMPRESSIBILITY_DEFAULT, ge=0, le=0.95, description="share that a codec should take away"
    )
    corpus: Path | None = Field(default=None, description="a file whose lines are the bodies of the records, in order")
    producers: int = Field(default=1, ge=1, le=1024)
    consumers: int = Field(default=0, ge=0, le=1024)
    readers: tuple[ReaderGroup, ...] = Field(
        default=(), max_length=64, description="instead of `consumers`, which is one reader named tail"
    )
    topics: int = Field(default=1, ge=1, le=64, description="each with the topic's partitions; records take turns")
    keys: KeyDistribution = "none"
    key_count: int = Field(default=1000, ge=1, le=1_000_000)
    key_zipf_exponent: float = Field(default=1.0, gt=0, le=4, description="of keys: zipf")
    key_hot_share: float = Field(default=0.5, gt=0, le=1, description="of keys: hot; the share of the hot key")
    commit_interval_ms: int = Field(
        default=0,
        ge=0,
        le=600_000,
        description="records are sent in transactions, and each ends so long after its first record; 0: without any",
    )
    transaction_records: int = Field(
        default=0, ge=0, le=65_536, description="a transaction ends earlier when it has so many records; 0: no limit"
    )
    transaction_abort_share: float = Field(
        default=0.0, ge=0, lt=1, description="share of the transactions that are aborted instead, evenly spread"
    )
    records_per_burst: int = Field(default=1, ge=1, le=1_000_000, description="so many are due at the same instant")
    warmup_ms: int = Field(default=2_000, ge=0, le=3_600_000)
    measure_ms: int = Field(default=10_000, gt=0, le=86_400_000)
    drain_ms: int = Field(default=10_000, ge=0, le=3_600_000)
    processes: int = Field(default=1, ge=1, le=64)
    schedule: Schedule = Field(default_factory=Constant)
    locust: OwnUsers | None = Field(default=None, description="users of your own locustfile, beside the rest")

    @property
    def reader_groups(self) -> tuple[ReaderGroup, ...]:
        if self.readers or not self.consumers:
            return self.readers
        return (ReaderGroup(name="tail", consumers=self.consumers),)

    @property
    def consumers_inside(self) -> int:
        """Consumers that are threads of the load process. The others, which come after them, are processes."""
        return sum(reader.consumers for reader in self.reader_groups if not reader.own_processes)

    @property
    def has_copiers(self) -> bool:
        return any(reader.copies for reader in self.readers)

    @property
    def is_closed_loop(self) -> bool:
        return isinstance(self.schedule, Closed)

    @property
    def is_transactional(self) -> bool:
        return self.commit_interval_ms > 0

    @property
    def isolation(self) -> dict[str, str]:
        """What readers of a transactional load get if they say nothing. Clients differ in their defaults: Java's reads
        records of open and aborted transactions, librdkafka's does not."""
        return {ISOLATION: READ_COMMITTED} if self.is_transactional else {}

    @model_validator(mode="before")
    @classmethod
    def _derived(cls, data: object) -> object:
        """`consumers` is the sum of the readers. A contradicting value is left for `_consistent` to refuse."""
        readers = data.get("readers") if isinstance(data, dict) else None
        if isinstance(data, dict) and isinstance(readers, list | tuple) and readers and not data.get("consumers"):
            counts = [
                reader.consumers if isinstance(reader, ReaderGroup) else reader.get("consumers", 1)
                for reader in readers
                if isinstance(reader, ReaderGroup | dict)  # others are refused by the field's own type
            ]
            if all(isinstance(count, int) for count in counts):
                return {**data, "consumers": sum(counts)}
        return data

    @model_validator(mode="after")
    def _consistent(self) -> Workload:
        kinds = [reader.own_processes for reader in self.readers]
        if kinds != sorted(kinds):
            raise ValueError("readers with own_processes come after the others")
        if any(reader.reads == "copies" for reader in self.readers) and not self.has_copiers:
            raise ValueError("a reader of copies needs a reader with copies: true that writes them")
        if self.has_copiers and self.topics > 1:
            raise ValueError(f"copiers work on one topic, got topics: {self.topics}")
        if self.topics > 1 and any(reader.mode == "share" for reader in self.readers):
            raise ValueError(f"share groups read one topic, got topics: {self.topics}")
        if self.processes > self.producers + self.consumers_inside:
            raise ValueError(f"processes is {self.processes}, more than producers and consumers together")
        in_readers = sum(reader.consumers for reader in self.readers)
        if self.readers and self.consumers != in_readers:
            raise ValueError(f"consumers is {self.consumers}, but readers have {in_readers}: leave consumers out")
        names = [reader.name for reader in self.readers]
        if len(set(names)) != len(names):
            raise ValueError(f"readers need different names, got {', '.join(names)}")
        own_size = self.record_size_bytes != RECORD_SIZE_BYTES_DEFAULT
        if own_size and (self.sizes is not None or self.corpus is not None):
            raise ValueError("record_size_bytes stands beside sizes or corpus, which decide it: leave it out")
        if self.sizes is not None and self.corpus is not None:
            raise ValueError("give either sizes or corpus: the lines of a corpus have their own sizes")
        if self.corpus is not None and self.compressibility != COMPRESSIBILITY_DEFAULT:
            raise ValueError("compressibility stands beside corpus, whose lines decide it: leave it out")
        if self.commit_interval_ms and any(reader.mode == "share" for reader in self.readers):
            raise ValueError("share groups read no load that is sent in transactions: leave commit_interval_ms out")
        if not self.commit_interval_ms and (self.transaction_records or self.transaction_abort_share):
            raise ValueError("transaction_records and transaction_abort_share need transactions: commit_interval_ms")
        if self.keys != "zipf" and self.key_zipf_exponent != 1.0:
            raise ValueError(f"key_zipf_exponent belongs to keys: zipf, keys is {self.keys}")
        if self.keys != "hot" and self.key_hot_share != 0.5:
            raise ValueError(f"key_hot_share belongs to keys: hot, keys is {self.keys}")
        return self


def copy_topic(topic: str) -> str:
    """The topic to which the copiers of a cell write."""
    return f"{topic}-copy"


def topic_names(first: str, count: int) -> tuple[str, ...]:
    """The topics of a cell: the first has the cell's own name."""
    return (first, *(f"{first}-t{number}" for number in range(1, count)))


class Share(StrictModel):
    """The users of a cell that run on one load host, by their numbers."""

    producers: tuple[int, ...] = Field(default=(), max_length=1024)
    consumers: tuple[int, ...] = Field(default=(), max_length=65_536)


class Plan(StrictModel):
    """One line of JSON on stdin: everything that a load process must know."""

    run_dir: Path
    cell_id: str = Field(min_length=1)
    t0_monotonic_ns: int
    client: str
    bootstrap_servers: str = Field(min_length=1)
    topic: str = Field(min_length=1)
    partitions: int = Field(ge=1)
    properties: dict[str, str] = Field(default_factory=dict)
    consumer_properties: dict[str, str] = Field(default_factory=dict)
    workload: Workload
    seed: int = 0
    log_append_time: bool = False  # the topics' timestamps are those of the brokers
    runtime: dict[str, str] = Field(default_factory=dict)  # what the client needs beside properties
    web_port: int | None = Field(default=None, ge=1, le=65_535)  # where Locust's own view is served, on loopback
    share: Share | None = None  # The share of a load host. None: all users run here.
    harness_t0_ns: int | None = None  # t0 on the clock of the harness's host, if that is another one

    @field_validator("client")
    @classmethod
    def _known_client(cls, value: str) -> str:
        if not is_client(value):
            raise ValueError(f"no such client, there are {', '.join(client_names())}")
        return value

    @property
    def topic_names(self) -> tuple[str, ...]:
        return topic_names(self.topic, self.workload.topics)

    @property
    def producers_here(self) -> tuple[int, ...]:
        """The numbers that the producers of this host may take."""
        return tuple(range(self.workload.producers)) if self.share is None else self.share.producers

    @property
    def consumers_here(self) -> tuple[int, ...]:
        return tuple(range(self.workload.consumers_inside)) if self.share is None else self.share.consumers

    @property
    def processes_here(self) -> int:
        """A load host runs the workload's processes, but none without a user."""
        return max(1, min(self.workload.processes, len(self.producers_here) + len(self.consumers_here)))

    @property
    def header_shift_ns(self) -> int:
        """The shift from this host's clock to the harness's clock, whose time is in the headers of records."""
        return 0 if self.harness_t0_ns is None else self.harness_t0_ns - self.t0_monotonic_ns

    @field_validator("properties", "consumer_properties", mode="before")
    @classmethod
    def _as_strings(cls, value: object) -> object:
        """Kafka properties are text: true and 5 of a JSON document become "true" and "5"."""
        if not isinstance(value, dict):
            return value
        return {name: property_text(setting) for name, setting in value.items()}


class OwnUsersPlan(StrictModel):
    """One line of JSON on stdin of `python -m workloads.own_users`."""

    users: OwnUsers
    bootstrap_servers: str = Field(min_length=1)
    topic: str = Field(min_length=1)
    properties: dict[str, str] = Field(default_factory=dict)  # security settings by Kafka's names; may hold passwords
    stats: Path
    t0_monotonic_ns: int


OWN_USERS_START: Final = "the users of the locustfile have started"  # a line of that process's output
OWN_USERS_STOP_S: Final = 8.0  # The `on_stop` of all of them have this long.
