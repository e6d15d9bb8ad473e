from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class CommittedMeansOnMinInsyncReplicasBrokers(Invariant):
    """Every committed record is on at least min.insync.replicas brokers, dead or alive."""

    NAME = "committed means on min.insync.replicas brokers"
    GROUP = Group.REPLICATION

    def check(self, where: str, *, end_offset: int, holders: list[int], wanted: int) -> None:
        if len(holders) < wanted:
            self.violated(f"{where} up to {end_offset}: only on {holders}, {wanted} are needed")
