"""The sticky assignor of streams groups (KIP-1071). It is pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from broker.coordinator.groups.streams.configured import ConfiguredTopology
from broker.coordinator.groups.streams.tasks import TaskId, Tasks

NAME = "sticky"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMemberSpec:
    member_id: str
    process_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    present: Tasks = field(default_factory=Tasks)  # its previous target assignment
    task_offsets: Mapping[TaskId, int] = field(default_factory=dict)
    task_end_offsets: Mapping[TaskId, int] = field(default_factory=dict)


class AssignorError(Exception):
    """The tasks cannot be assigned: there is no member."""


def assign(
    members: Sequence[StreamsMemberSpec], topology: ConfiguredTopology, *, standby_replicas: int = 0
) -> dict[str, Tasks]:
    """The target tasks of each member, by member id. `standby_replicas` is num.standby.replicas."""
    raise NotImplementedError
