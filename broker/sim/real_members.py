"""Group members of the reference client: the real `Consumer`, with the thread of its group.

Each member reads its partitions and commits its position. This goes on until its process is killed, is stopped for
longer than its session, or leaves. These things are checked:

- Offsets ascend while a member owns a partition.
- A member begins no earlier than at the committed offset.
- A partition has one owner in a generation of the classic protocol.

If a commit gets no answer, the process ends, because this commit could still arrive at any later time in its
generation.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

from broker.client.consumer import Consumer
from broker.client.core.batch import TopicPartition
from broker.client.core.errors import KafkaError
from broker.client.core.fetch_state import ConsumerRecord
from broker.client.core.transactions import OffsetAndMetadata
from broker.client.group_commits import Offsets
from broker.client.group_session import RebalanceListener
from broker.sim.coordinator_client import GROUP, Place
from broker.sim.coverage import Coverage
from broker.sim.group_checker import GroupChecker
from broker.sim.invariants.clients import ClientDoesNotFail, OffsetsOfAPartitionAscend
from broker.sim.invariants.invariant import Fail
from broker.sim.loop import SimLoop
from broker.sim.network import Network
from broker.sim.scheduler import Scheduler
from broker.sim.threads import Threads

POLL_MS = 60
SESSION_MS = 1_000
CLASSIC = "classic"


class _Process(RebalanceListener):
    """One life of a member."""

    def __init__(self, owner: RealMember, number: int) -> None:
        self.owner = owner
        self.loop = SimLoop(  # type: ignore[abstract]  # only to typeshed: the others raise
            scheduler=owner.scheduler, network=owner.network, host=owner.name
        )
        self.threads = Threads(scheduler=owner.scheduler, network=owner.network, loop=self.loop)
        self.is_done = False
        self._rng = random.Random(owner.rng.random())
        self._number = number
        # By partition: the offset that was committed when it was assigned, and the coordinator at that time.
        self._floors: dict[int, tuple[int, int]] = {}
        self._next: dict[int, int] = {}  # the offset after the last record that was handed out
        self._is_committing = False
        self._has_failed = False

    def run(self) -> None:
        owner = self.owner
        self._consumer = consumer = Consumer(owner.properties(self._number), seed=self._rng.randrange(2**32))
        try:
            consumer.subscribe([owner.topic], self)
            while not owner.is_over and not self._has_failed and self._rng.random() > 0.005:
                with contextlib.suppress(KafkaError):
                    self._took(consumer.poll(POLL_MS))
                if self._rng.random() < 0.3:
                    self._commit()
                self.threads.wait(lambda: False, self._rng.uniform(1, 40))
            if not self._has_failed:
                with contextlib.suppress(KafkaError):
                    consumer.close(1_000)
        finally:
            self.is_done = True

    # -- RebalanceListener -------------------------------------------------------------------------------------------

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        owner, group = self.owner, self._consumer._group
        assert group is not None
        who, indexes = group.thread.identity(), sorted(each.partition for each in partitions)
        if owner.protocol == CLASSIC:
            owner.checker.assigned(owner.group, who.generation, who.member_id, indexes)
        for index in indexes:
            self._next.pop(index, None)
            self._floors[index] = owner.checker.floor(owner.group, index), self._coordinator()
        if indexes:
            owner.coverage.reached("real member assigned")

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        for each in partitions:
            self._next.pop(each.partition, None)
            self._floors.pop(each.partition, None)
        if partitions:
            self.owner.coverage.reached("partition revoked from a real member")

    # -- reading and committing --------------------------------------------------------------------------------------

    def _coordinator(self) -> int:
        """The coordinator that this member uses. -1 if that broker is not the coordinator any more, because it may
        answer with older offsets then."""
        group = self._consumer._group
        asked = None if group is None else group.thread._coordinator
        truth = self.owner.coordinator_of(GROUP, self.owner.group)[0]
        return truth if asked == truth else -1

    def _took(self, records: list[ConsumerRecord]) -> None:
        owner = self.owner
        for record in records:
            index, offset = record.partition, record.offset
            owner.offsets_ascend.check(owner.name, index, offset, next_offset=self._next.get(index, 0))
            floor, coordinator = self._floors.pop(index, (-1, -1))
            if offset < floor and coordinator >= 0 and coordinator == self._coordinator():
                owner.checker.goes_on(owner.group, index, owner.name, offset, floor=floor)
            self._next[index] = offset + 1
        if records:
            owner.coverage.reached("real member read")

    def _commit(self) -> None:
        """Commit the positions. There is one commit at a time, and it is not repeated."""
        owner = self.owner
        if self._is_committing or not self._next:
            return
        offsets = {TopicPartition(owner.topic, index): OffsetAndMetadata(at) for index, at in self._next.items()}
        for each, at in offsets.items():
            owner.checker.committing(owner.group, each.partition, at.offset)
        self._is_committing = True

        def done(committed: Offsets, error: KafkaError | None) -> None:
            self._is_committing = False
            if error is not None:
                self._has_failed = not error.definite or self._has_failed
                return
            for each, at in committed.items():
                owner.checker.committed(owner.group, each.partition, at.offset)
            owner.coverage.reached("real member committed")

        try:
            self._consumer.commit_async(offsets, done)
        except KafkaError:
            self._is_committing = False


class RealMember:
    def __init__(
        self,
        *,
        name: str,
        group: str,
        protocol: str,
        bootstrap: str,
        topic: str,
        scheduler: Scheduler,
        network: Network,
        rng: random.Random,
        checker: GroupChecker,
        coordinator_of: Callable[[int, str], Place],
        coverage: Coverage,
        fail: Fail,
    ) -> None:
        self.name, self.group, self.protocol, self.topic = name, group, protocol, topic
        self.scheduler, self.network, self.rng = scheduler, network, rng
        self.checker, self.coordinator_of, self.coverage = checker, coordinator_of, coverage
        self.offsets_ascend, self._does_not_fail = OffsetsOfAPartitionAscend(fail), ClientDoesNotFail(fail)
        self.is_over = False
        self._bootstrap = bootstrap
        self._processes: list[_Process] = []

    def properties(self, number: int) -> dict[str, str]:
        of_classic = {"session.timeout.ms": str(SESSION_MS), "heartbeat.interval.ms": "100"}
        return {
            "bootstrap.servers": self._bootstrap,
            "client.id": f"{self.name}-{number}",
            "group.id": self.group,
            "group.protocol": self.protocol,
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "max.poll.interval.ms": "4000",
            "max.poll.records": "20",
            "fetch.max.wait.ms": "50",
            "retry.backoff.ms": "20",
            "retry.backoff.max.ms": "100",
            "request.timeout.ms": "300",
            "default.api.timeout.ms": "1500",
            "reconnect.backoff.ms": "20",
            "reconnect.backoff.max.ms": "100",
            "socket.connection.setup.timeout.ms": "300",
            "metadata.max.age.ms": "2000",
            **(of_classic if self.protocol == CLASSIC else {}),
        }

    def begin(self) -> None:
        self._begin_process()
        self._look_later()

    def _begin_process(self) -> None:
        process = _Process(self, len(self._processes) + 1)
        self._processes.append(process)
        process.threads.begin(process.run)

    def _look_later(self) -> None:
        self.scheduler.after(self.rng.randrange(50_000, 300_000), self._look)

    def _look(self) -> None:
        """Now and then kill the process, or stop it for longer than its session. Begin the next one when it has
        ended."""
        if self.is_over:
            return
        process = self._processes[-1]
        fate = self.rng.random()
        if process.is_done or process.loop.is_dead:
            self._begin_process()
        elif fate < 0.03:
            process.loop.kill()
            self.network.process_died(process.loop, with_power=True)
            self.coverage.reached("real member killed")
        elif fate < 0.06:
            process.loop.pause(self.rng.randrange(1_200_000, 2_000_000))
        self._look_later()

    @property
    def is_done(self) -> bool:
        for process in self._processes:
            self._does_not_fail.check(self.name, process.threads.failure)
        return all(each.is_done or each.loop.is_dead for each in self._processes)

    def dispose(self) -> None:
        for process in self._processes:
            process.threads.dispose()
