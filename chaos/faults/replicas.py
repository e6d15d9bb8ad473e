"""Replicas that move under load. It uses Kafka's own admin requests (KIP-455), as an operator does on any cluster.

replicas_moved moves the partition of interest away from its leader's broker. A broker without a replica of it takes the
place of this broker, at the head of the list. The move is complete when the new replica is in sync and the old one is
gone. Healing cancels a move that is not complete. Replicas that have moved stay where they are.

broker_decommissioned empties a broker. Each partition of the topic with a replica there gets a replica elsewhere. If no
other broker is left for it, it has one replica less. Then the broker stops cleanly, and the cluster forgets it
(UnregisterBroker). Healing starts it again on its old data. It joins as a new broker and gets back the replicas that it
had.

Proved by the brokers' metadata: the replicas are those that were asked for, and all are in sync; or the cluster does
not list the broker that was removed, and no partition has a replica there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from chaos.faults.base import FaultContext, FaultSpec, Parameter, Proof
from chaos.faults.processes import start_again

Replicas = dict[int, tuple[int, ...]]  # The key is the partition, the value its brokers.
REGISTERED_WITHIN_S = 120.0
POLL_S = 0.1


class ReplicasMoved:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._port, self._topics, self._of = context.port, context.port.topics, context.of
        self._before: tuple[int, ...] = ()
        self._wanted: tuple[int, ...] = ()
        self._took_ms = -1

    def inject(self) -> None:
        topic, partition = self._of.topic, self._of.partition
        self._before = self._topics.replicas_of(topic)[partition]
        leader = self._port.brokers.leader(topic, partition)
        free = sorted(set(self._port.brokers.broker_ids) - set(self._before))
        if not free or leader not in self._before:
            raise ValueError(
                f"{topic}-{partition} has replicas {self._before} and leader {leader}: replicas_moved needs a leader, "
                "and a broker without a replica"
            )
        self._wanted = (free[0], *(replica for replica in self._before if replica != leader))
        begin_ns = time.monotonic_ns()
        self._topics.set_replicas(topic, {partition: self._wanted})
        self._took_ms = (time.monotonic_ns() - begin_ns) // 1_000_000

    def heal(self) -> None:
        if self._wanted and self._took_ms < 0:
            self._topics.cancel_moves(self._of.topic)

    def prove(self) -> Proof:
        topic, partition = self._of.topic, self._of.partition
        now = tuple(self._port.brokers.replicas(topic, partition))
        in_sync = set(self._port.brokers.isr(topic, partition))
        return Proof(
            is_effective=bool(self._wanted) and now == self._wanted and in_sync == set(now),
            detail={"before": list(self._before), "after": list(now), "took_ms": self._took_ms},
        )


class BrokerDecommissioned:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._port, self._topics, self._topic = context.port, context.port.topics, context.of.topic
        (self._broker,) = context.brokers
        self._before: Replicas = {}  # replicas of the partitions that had a replica there, from when they may be moved
        self._is_forgotten = False

    def inject(self) -> None:
        present = self._topics.replicas_of(self._topic)
        moves = emptied(present, self._broker, [each for each in self._port.brokers.broker_ids if each != self._broker])
        self._before = {partition: present[partition] for partition in moves}
        self._topics.set_replicas(self._topic, moves)
        self._port.processes.terminate(self._broker)
        self._topics.forget_broker(self._broker)
        self._is_forgotten = True

    def heal(self) -> None:
        """Also after an `inject` that failed half-way: a move may go on, and the broker may be stopped or forgotten."""
        start_again(self._port, self._broker)
        if self._before or self._is_forgotten:
            self._await_registered()
            self._topics.cancel_moves(self._topic)
            self._topics.set_replicas(self._topic, self._before)
            self._before, self._is_forgotten = {}, False

    def _await_registered(self) -> None:
        """Wait for the registration, because no replica can be moved to a broker before it."""
        deadline = time.monotonic() + REGISTERED_WITHIN_S
        while self._broker not in self._topics.brokers():
            if time.monotonic() > deadline:
                raise TimeoutError(f"broker {self._broker} did not join again within {REGISTERED_WITHIN_S:.0f} s")
            time.sleep(POLL_S)

    def prove(self) -> Proof:
        now = self._topics.replicas_of(self._topic)
        listed = self._topics.brokers()
        left = sorted(partition for partition, replicas in now.items() if self._broker in replicas)
        return Proof(
            is_effective=self._is_forgotten and not left and self._broker not in listed,
            detail={
                "broker": self._broker,
                "moved": {str(partition): list(now[partition]) for partition in sorted(self._before)},
                "left": left,
                "listed": sorted(listed),
            },
        )


def emptied(present: Mapping[int, tuple[int, ...]], broker: int, others: list[int]) -> Replicas:
    """The assignment with which this broker has no replica. In each partition the other broker with the fewest replicas
    takes its place."""
    load = {each: sum(each in replicas for replicas in present.values()) for each in others}
    moves: Replicas = {}
    for partition, replicas in sorted(present.items()):
        if broker not in replicas:
            continue
        free = [each for each in others if each not in replicas]
        kept = [each for each in replicas if each != broker]
        if free:
            chosen = min(free, key=lambda each: (load[each], each))
            load[chosen] += 1
            kept.insert(replicas.index(broker), chosen)
        if not kept:
            raise ValueError(
                f"partition {partition} has its only replica on broker {broker}, and there is no other broker"
            )
        moves[partition] = tuple(kept)
    return moves


SPECS: tuple[FaultSpec, ...] = (
    FaultSpec(
        name="replicas_moved",
        label="replicas moved",
        colour="#2874a6",
        target_kind="topic",
        default_target="topic",
        make=ReplicasMoved,
        parameters={},
    ),
    FaultSpec(
        name="broker_decommissioned",
        label="broker decommissioned",
        colour="#935116",
        target_kind="broker",
        default_target="leader",
        make=BrokerDecommissioned,
        parameters={},
    ),
)
