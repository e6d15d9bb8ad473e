"""AssignReplicasToDirs (KIP-858): the request in which a broker tells where its replicas lie, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPlace:
    topic_id: UUID | None  # None: the zero id, which no topic has
    partition: int
    directory: UUID | None  # None: the zero id, "not assigned"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignReplicas:
    token: int
    broker_id: int
    broker_epoch: int
    places: tuple[ReplicaPlace, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedReplica:
    place: ReplicaPlace
    error_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignReplicasResponse:
    error_code: int  # The whole request's error. With one, replicas is empty.
    replicas: tuple[AssignedReplica, ...]
