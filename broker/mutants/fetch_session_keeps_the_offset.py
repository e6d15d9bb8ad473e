"""A follower does not name a partition of its fetch session again when its own end offset has changed."""

from __future__ import annotations

from broker.mutants import Patch
from broker.node.replicas.replica_session import ReplicaSession


def apply(patch: Patch) -> None:
    patch.set(ReplicaSession, "moved", lambda self, hosted: None)
