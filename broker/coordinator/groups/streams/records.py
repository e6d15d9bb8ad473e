"""The records of streams groups in `__consumer_offsets` (types 17 and 19 to 23), as values.

record_codec.py has their bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from broker.coordinator.groups.streams.events import Endpoint
from broker.coordinator.groups.streams.reconcile import Current
from broker.coordinator.groups.streams.tasks import Tasks
from broker.coordinator.groups.streams.topology import Topology

NO_TOPOLOGY_EPOCH = -1  # the topics of no topology are known to fit


class Kind(IntEnum):
    GROUP = 17
    MEMBER = 19
    TARGET_EPOCH = 20
    TARGET_MEMBER = 21
    CURRENT_MEMBER = 22
    TOPOLOGY = 23

    @property
    def has_member(self) -> bool:
        return self in (Kind.MEMBER, Kind.TARGET_MEMBER, Kind.CURRENT_MEMBER)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsKey:
    kind: Kind
    group_id: str
    member_id: str = ""  # for the kinds of record that have one


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupValue:
    epoch: int
    metadata_hash: int
    validated_topology_epoch: int = NO_TOPOLOGY_EPOCH
    assignment_configs: Mapping[str, str] = field(default_factory=dict)  # of the last assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberValue:
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEpoch:
    epoch: int
    timestamp_ms: int = 0  # when the assignment was computed


Value: TypeAlias = GroupValue | MemberValue | TargetEpoch | Tasks | Current | Topology
StreamsRecord: TypeAlias = tuple[StreamsKey, Value | None]
