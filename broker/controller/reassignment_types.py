"""Requests and answers for reassignments of partitions (KIP-455), and for the removal of a broker from the cluster.
Values only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedReplicas:
    topic: str
    partition: int
    replicas: tuple[int, ...] | None  # None: cancel the reassignment that is in progress


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignments:
    token: int
    partitions: tuple[WantedReplicas, ...]
    allow_replication_factor_change: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentOutcome:
    topic: str
    partition: int
    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsResponse:
    error_code: int  # NOT_CONTROLLER: then partitions is empty
    partitions: tuple[ReassignmentOutcome, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBroker:
    token: int
    broker_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerResponse:
    error_code: int
    error_message: str | None
