"""Accumulator and sender against a model of brokers in virtual time, with refusals, drops, lost connections.

The model keeps one log per partition (leaders move, nothing is truncated), checks sequences as Kafka does, and answers
the requests of a connection in order. Each seed is a different history; a failing one is printed by the test's name.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from dataclasses import dataclass, field

import pytest

from broker.client.core.accumulator import Accumulator
from broker.client.core.batch import Batch, TopicPartition
from broker.client.core.config import parse_producer
from broker.client.core.metadata import BrokerAddress, MetadataAnswer, MetadataCache, PartitionState, TopicState
from broker.client.core.sender import SenderCore
from broker.client.core.sender_events import (
    Action,
    AskIdentity,
    CloseNode,
    Complete,
    Connect,
    Event,
    IdentityAnswered,
    NodeConnected,
    NodeLost,
    PartitionResult,
    ProduceAnswered,
    SendProduce,
    Tick,
)
from broker.wire.errors import ErrorCode
from tests.amount import seeds

NODES = (1, 2, 3)
PARTITIONS = (0, 1)
RECORDS = 120
FAULTS_UNTIL_MS = 8_000
END_MS = 200_000


@dataclass
class _ProducerEntry:
    epoch: int
    next_sequence: int = 0
    recent: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=5))


@dataclass
class _Partition:
    log: list[bytes] = field(default_factory=list)
    producers: dict[int, _ProducerEntry] = field(default_factory=dict)

    def append(self, values: list[bytes], producer_id: int, epoch: int, sequence: int) -> PartitionResult:
        if producer_id >= 0:
            entry = self.producers.setdefault(producer_id, _ProducerEntry(epoch))
            if epoch < entry.epoch:
                return PartitionResult(error_code=ErrorCode.invalid_producer_epoch)
            if epoch > entry.epoch:
                entry = self.producers[producer_id] = _ProducerEntry(epoch)
            for first, count, offset in entry.recent:
                if (first, count) == (sequence, len(values)):
                    return PartitionResult(base_offset=offset)
            if sequence != entry.next_sequence:
                return PartitionResult(error_code=ErrorCode.out_of_order_sequence_number)
            entry.next_sequence += len(values)
            entry.recent.append((sequence, len(values), len(self.log)))
        offset = len(self.log)
        self.log.extend(values)
        return PartitionResult(base_offset=offset)


@dataclass
class _Sent:
    """A request as it was when it left: the core may renumber batches later."""

    request_id: int
    batches: list[tuple[TopicPartition, list[bytes], int, int, int]]


class Simulation:
    def __init__(self, seed: int, **properties: object) -> None:
        self.random = random.Random(seed)
        settings = {
            "bootstrap.servers": "h:1",
            "batch.size": 100,
            "linger.ms": 5,
            "request.timeout.ms": 300,
            "delivery.timeout.ms": 120_000,
            **{name.replace("_", "."): value for name, value in properties.items()},
        }
        config = parse_producer(settings)
        self.now_ms = 0
        self.accumulator = Accumulator(
            batch_size_bytes=config.batch_size, linger_ms=config.linger_ms, buffer_memory_bytes=10**7
        )
        self.metadata = MetadataCache(
            max_age_ms=10**9, backoff_first_ms=20, backoff_max_ms=100, rng=random.Random(seed + 1)
        )
        self.core = SenderCore(config, self.accumulator, self.metadata, random.Random(seed + 2))
        self.partitions = {TopicPartition("t", index): _Partition() for index in PARTITIONS}
        self.leaders = {partition: 1 for partition in self.partitions}
        self.epoch = 0
        self.wire: dict[int, deque[_Sent]] = {}
        self.queue: list[tuple[int, int, object]] = []
        self.order = 0
        self.completed: list[Batch] = []
        self.appended: dict[TopicPartition, list[bytes]] = {partition: [] for partition in self.partitions}

    # -- the world ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        for index in range(RECORDS):
            self.at(self.random.randrange(FAULTS_UNTIL_MS), ("append", index))
        self.at(0, ("metadata",))
        for time_ms in range(200, FAULTS_UNTIL_MS, 400):
            self.at(time_ms, ("mischief",))
        while self.queue and self.now_ms < END_MS:
            time_ms, _, event = heapq.heappop(self.queue)
            self.now_ms = max(self.now_ms, time_ms)
            self.happen(event)
            self.look()
        assert not self.accumulator.incomplete, "the sender stopped with work left"

    def at(self, time_ms: int, event: object) -> None:
        self.order += 1
        heapq.heappush(self.queue, (time_ms, self.order, event))

    def look(self) -> None:
        """What a shell does between events: a Tick, a metadata refresh, and a timer."""
        self.tell(Tick())
        due_ms = self.metadata.next_request_ms()
        if due_ms is not None and due_ms <= self.now_ms:
            self.metadata.on_request(self.now_ms)
            self.at(self.now_ms + 2, ("metadata",))
        deadlines = [self.core.next_deadline_ms(self.now_ms), self.metadata.next_request_ms()]
        later = [each for each in deadlines if each is not None and each > self.now_ms and each < 10**8]
        if later and (not self.queue or min(later) < self.queue[0][0]):
            self.at(min(later), ("timer",))

    def happen(self, event: object) -> None:
        match event:
            case ("append", int(index)):
                partition = self.random.choice(list(self.partitions))
                value = b"%05d" % index
                queue = self.accumulator.queue_of(partition)
                assert self.accumulator.try_append(queue, value, None, (), 0, None, 17, self.now_ms)
                self.appended[partition].append(value)
            case ("metadata",):
                self.metadata.on_answer(self.describe(), self.now_ms)
            case ("mischief",):
                self.do_mischief()
            case ("serve", int(node), _Sent() as sent):
                self.serve(node, sent)
            case ("timer",):
                pass
            case ("tell", told):
                self.tell(told)  # type: ignore[arg-type]  # put there as an Event

    def describe(self) -> MetadataAnswer:
        states = tuple(
            PartitionState(partition=each.partition, leader=leader, leader_epoch=self.epoch)
            for each, leader in self.leaders.items()
        )
        brokers = tuple(BrokerAddress(broker_id=each, host="h", port=each) for each in NODES)
        return MetadataAnswer(brokers=brokers, topics=(TopicState(name="t", partitions=states),))

    def do_mischief(self) -> None:
        kind = self.random.choice(("move", "lose", "nothing"))
        if kind == "move":
            self.epoch += 1
            self.leaders[self.random.choice(list(self.leaders))] = self.random.choice(NODES)
        elif kind == "lose" and self.wire:
            self.lose(self.random.choice(list(self.wire)))

    def lose(self, node: int) -> None:
        """The connection breaks after some of its requests were served; no answer comes back."""
        line = self.wire.pop(node, deque())
        for _ in range(self.random.randint(0, len(line))):
            self.apply(node, line.popleft())
        self.tell(NodeLost(node=node))

    def serve(self, node: int, sent: _Sent) -> None:
        line = self.wire.get(node)
        if line is None or not line or line[0] is not sent:
            return None  # its connection was lost
        fate = self.random.random() if self.now_ms < FAULTS_UNTIL_MS else 1.0
        if fate < 0.08:
            return self.lose(node)
        line.popleft()
        if fate < 0.14:
            # Appended, but the answer is lost, alone: a proxy can do that, and a broker that answers in order cannot.
            self.apply(node, sent)
            return None
        if fate < 0.22:
            code = self.random.choice((ErrorCode.not_enough_replicas, ErrorCode.request_timed_out))
            results = {partition: PartitionResult(error_code=code) for partition, *_ in sent.batches}
        else:
            results = self.apply(node, sent)
        self.tell(ProduceAnswered(request_id=sent.request_id, results=results))
        return None

    def apply(self, node: int, sent: _Sent) -> dict[TopicPartition, PartitionResult]:
        results = {}
        for partition, values, producer_id, epoch, sequence in sent.batches:
            if self.leaders[partition] != node:
                results[partition] = PartitionResult(error_code=ErrorCode.not_leader_or_follower)
            else:
                results[partition] = self.partitions[partition].append(values, producer_id, epoch, sequence)
        return results

    # -- the client -----------------------------------------------------------------------------------------------

    def tell(self, event: Event) -> None:
        actions = self.core.handle(event, self.now_ms)
        self.core.check_invariants()
        for action in actions:
            self.perform(action)

    def perform(self, action: Action) -> None:
        match action:
            case Connect(node=node):
                if node not in self.wire:
                    self.wire[node] = deque()
                    self.at(self.now_ms + 3, ("tell", NodeConnected(node=node)))
            case SendProduce():
                sent = _Sent(
                    request_id=action.request_id,
                    batches=[
                        (
                            batch.partition,
                            list(batch.values),
                            batch.producer_id,
                            batch.producer_epoch,
                            batch.base_sequence,
                        )  # type: ignore[misc]  # values are bytes here
                        for batch in action.batches
                    ],
                )
                self.wire[action.node].append(sent)
                self.at(self.now_ms + self.random.randint(1, 40), ("serve", action.node, sent))
                # Requests of a connection are served in order: whoever is first is served at the latest event.
                for waiting in self.wire[action.node]:
                    self.at(self.now_ms + 41, ("serve", action.node, waiting))
            case AskIdentity():
                self.at(self.now_ms + 2, ("tell", IdentityAnswered(error_code=0, producer_id=5, producer_epoch=0)))
            case CloseNode(node=node):
                self.wire.pop(node, None)
                self.at(self.now_ms, ("tell", NodeLost(node=node)))
            case Complete(batch=batch):
                self.completed.append(batch)

    # -- what is true afterwards ----------------------------------------------------------------------------------

    def values(self, *, acked: bool) -> list[tuple[TopicPartition, bytes]]:
        return [
            (batch.partition, value)
            for batch in self.completed
            if batch.outcome is not None and (batch.outcome.error is None) == acked
            for value in batch.values
            if value is not None
        ]

    def logged(self) -> list[tuple[TopicPartition, bytes]]:
        return [(partition, value) for partition, state in self.partitions.items() for value in state.log]

    def duplicates(self) -> int:
        logged = self.logged()
        return len(logged) - len(set(logged))

    def is_reordered(self) -> bool:
        """Whether a record's first place in the log comes after that of one appended later."""
        for partition, state in self.partitions.items():
            first = list(dict.fromkeys(state.log))
            if first != [value for value in self.appended[partition] if value in set(first)]:
                return True
        return False

    def check_common(self) -> None:
        everything = [(partition, value) for partition, values in self.appended.items() for value in values]
        assert sorted(everything) == sorted(self.values(acked=True) + self.values(acked=False))  # one outcome each
        assert set(self.values(acked=True)) <= set(self.logged())
        logged = set(self.logged())
        for batch in self.completed:
            assert batch.outcome is not None
            if batch.outcome.error is not None and batch.outcome.error.definite:
                assert not logged & {(batch.partition, value) for value in batch.values if value is not None}
        assert self.accumulator.used_bytes == 0


SEEDS = seeds(60, fast=12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("in_flight", [1, 5])
def test_idempotence_loses_duplicates_and_reorders_nothing(seed: int, in_flight: int) -> None:
    simulation = Simulation(seed, max_in_flight_requests_per_connection=in_flight)
    simulation.run()
    simulation.check_common()
    assert len(simulation.values(acked=True)) == RECORDS
    assert simulation.duplicates() == 0
    assert not simulation.is_reordered()


@pytest.mark.parametrize("seed", SEEDS)
def test_one_in_flight_keeps_order_without_idempotence(seed: int) -> None:
    properties = {"enable_idempotence": "false", "max_in_flight_requests_per_connection": 1}
    simulation = Simulation(seed, **properties)
    simulation.run()
    simulation.check_common()
    assert not simulation.is_reordered()


@pytest.mark.thorough
def test_five_in_flight_without_idempotence_reorders_and_duplicates_but_loses_nothing() -> None:
    reordered = duplicated = 0
    for seed in SEEDS:
        simulation = Simulation(seed, enable_idempotence="false")
        simulation.run()
        simulation.check_common()
        assert len(simulation.values(acked=True)) == RECORDS
        reordered += simulation.is_reordered()
        duplicated += simulation.duplicates() > 0
    assert reordered > len(SEEDS) // 4
    assert duplicated > len(SEEDS) // 4


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("idempotence", ["true", "false"])
def test_short_limits_fail_records_and_definite_failures_are_true(seed: int, idempotence: str) -> None:
    limits = {"delivery_timeout_ms": 400, "retries": 2, "enable_idempotence": idempotence}
    simulation = Simulation(seed, **limits)
    simulation.run()
    simulation.check_common()
    if idempotence == "true":
        assert not simulation.is_reordered()


@pytest.mark.thorough
def test_the_short_limits_above_do_fail_records() -> None:
    failed = 0
    for seed in SEEDS:
        simulation = Simulation(seed, delivery_timeout_ms=400, retries=2, enable_idempotence="false")
        simulation.run()
        failed += len(simulation.values(acked=False))
    assert failed > len(SEEDS)
