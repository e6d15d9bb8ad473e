"""The load of a cell, as in cell.json. workloads.model says what each setting means, and checks it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from runlog.records.codec import Rest

EARLIEST: Final = "earliest"
GROUP: Final = "group"
SHARE: Final = "share"
TOPIC: Final = "topic"
COPIES: Final = "copies"
READ_COMMITTED: Final = "read_committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRecord:
    """`more` holds the parameters of the kind: steps, from_rate_per_s and so on."""

    kind: str = "constant"
    more: Rest = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderRecord:
    """One group of readers. Its number in the run log is its position in the list."""

    name: str = ""
    consumers: int = 1
    mode: str = "assign"  # assign, group, share
    start: str = EARLIEST  # earliest, latest
    start_after_ms: int | None
    processing_us: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    producer_properties: Mapping[str, str] = field(default_factory=dict)
    own_processes: bool = False
    commit: str = "auto"  # auto, after, before
    group_settings: Mapping[str, str] = field(default_factory=dict)  # Settings of a share group, set at the broker.
    rejects_every: int = 0  # a member of a share group rejects every record whose offset this divides; 0: none
    releases_every: int = 0  # the same for records that it releases when they come for the first time
    copies: bool = False
    reads: str = TOPIC  # topic, copies
    deduplicate: str = "none"  # none, table, redis
    deduplicate_entries: int | None = None
    deduplicate_keep_ms: int | None = None
    redis_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnUsersRecord:
    """Users of somebody's locustfile, which ran beside the producers and readers."""

    file: str
    users: int
    spawn_rate: float | None = None  # users that started in a second


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRecord:
    rate_per_s: float | None = None  # Constant schedules have it. In a closed loop it is an upper limit.
    record_size_bytes: int | None = None
    sizes: Mapping[str, object] | None
    compressibility: float | None = None
    corpus: str | None
    producers: int | None = None
    consumers: int | None = None
    readers: tuple[ReaderRecord, ...] = ()
    topics: int = 1
    keys: str | None = None
    key_count: int | None = None
    key_zipf_exponent: float | None = None
    key_hot_share: float | None = None
    commit_interval_ms: int = 0  # 0: the records are sent without transactions
    transaction_records: int = 0  # a transaction ends earlier with so many records; 0: no limit
    transaction_abort_share: float = 0.0  # of the transactions
    records_per_burst: int | None = None
    warmup_ms: int | None = None
    measure_ms: int | None = None
    drain_ms: int | None = None
    processes: int | None = None
    schedule: ScheduleRecord = ScheduleRecord()
    locust: OwnUsersRecord | None

    @property
    def has_copiers(self) -> bool:
        return any(reader.copies for reader in self.readers)

    @property
    def reader_groups(self) -> tuple[ReaderRecord, ...]:
        """The listed readers. `consumers` alone means one reader named tail."""
        if self.readers or not self.consumers:
            return self.readers
        return (ReaderRecord(name="tail", consumers=self.consumers, start_after_ms=None),)
