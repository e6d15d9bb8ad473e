"""Topics and log directories as faults see them: what plain admin requests ask and change.

harness/clusters/requests/topic_changes.py and log_directories.py implement them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class Topics(Protocol):
    """Kafka's admin requests for a topic in use. Every call takes effect before it returns, or raises."""

    def partition_count(self, topic: str) -> int: ...

    def set_partition_count(self, topic: str, count: int) -> None: ...

    def own_settings(self, topic: str) -> Mapping[str, str]:
        """The overrides of the topic itself."""

    def setting_by_broker(self, topic: str, name: str) -> Mapping[int, str | None]:
        """The effective value, as each running broker tells it."""

    def change_setting(self, topic: str, name: str, value: str | None) -> None:
        """None: remove the override, so that the brokers' setting counts."""

    def id_by_broker(self, topic: str) -> Mapping[int, str | None]:
        """The topic's id (KIP-516) as each running broker tells it. None for a broker that knows no such topic.

        A broker that does not answer is left out.
        """

    def replication_factor(self, topic: str) -> int: ...

    def replicas_of(self, topic: str) -> dict[int, tuple[int, ...]]:
        """The replicas by partition. The first one is the preferred leader."""

    def set_replicas(self, topic: str, wanted: Mapping[int, Sequence[int]]) -> None:
        """Reassign. It returns when these are the replicas and all of them are in sync."""

    def cancel_moves(self, topic: str) -> None:
        """Cancel reassignments that `set_replicas` began and that are not complete."""

    def brokers(self) -> frozenset[int]:
        """The ids of the brokers that the cluster lists."""

    def forget_broker(self, broker_id: int) -> None:
        """Unregister a broker that does not run, so that the cluster no longer lists it."""

    def delete(self, topic: str) -> None: ...

    def create(self, topic: str, *, partitions: int, replication_factor: int, config: Mapping[str, str]) -> None: ...

    def start_offset(self, topic: str, partition: int) -> int: ...

    def end_offset(self, topic: str, partition: int) -> int: ...

    def newest_append_time_ms(self, topic: str, partition: int) -> int | None:
        """The time when the leader appended the newest batch, by the leader's clock. None if the log is empty, or if
        the timestamps are those of the producers."""

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None: ...


class LogDirectories(Protocol):
    """Kafka's admin requests for the log directories of a broker, by absolute path. Every call raises if it is
    refused."""

    def of_broker(self, broker_id: int, topic: str) -> Mapping[str, LogDirectory]: ...

    def failed(self, broker_id: int) -> frozenset[Path]:
        """The directories, without symbolic links, of which the broker says that they failed. Unlike the other calls
        it never raises: the set is empty while the broker does not answer."""

    def cordoned(self, broker_id: int) -> str:
        """The setting `cordoned.log.dirs` (KIP-1066) in force."""

    def cordon(self, broker_id: int, value: str) -> None:
        """Change that setting. Empty: no directory is cordoned."""

    def move(self, broker_id: int, topic: str, paths: Mapping[int, str]) -> None:
        """Move the replicas of these partitions to the directories with these paths (KIP-113). It returns when they
        are there, and nowhere else."""

    def stay(self, broker_id: int, topic: str) -> None:
        """Cancel moves that are not complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """A log directory of a broker that works, as the broker tells it."""

    partitions: frozenset[int]  # They are of the topic that was asked for.
    arriving: frozenset[int]  # They are of the same topic, and their logs are being copied into it.
    is_cordoned: bool
