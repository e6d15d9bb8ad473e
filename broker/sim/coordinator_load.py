"""The clients of coordinators in one run: transactional producers and members of groups. It starts them, ends them, and
compares their results."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any
from uuid import UUID

from broker.coordinator.keys import partition_for
from broker.node.coordination.groups import OFFSETS_TOPIC
from broker.node.coordination.transactions import TOPIC as TRANSACTIONS_TOPIC
from broker.sim.clients import SimClient
from broker.sim.coordinator_client import GROUP, Place
from broker.sim.group_checker import GroupChecker
from broker.sim.group_members import ClassicMember, ConsumerMember
from broker.sim.partition_truth import Key
from broker.sim.plan import TOPIC
from broker.sim.real_members import RealMember
from broker.sim.real_transactions import RealTransactionalProducer
from broker.sim.share_load import ShareLoad
from broker.sim.transactional import TransactionalProducer

if TYPE_CHECKING:
    from broker.sim.stage import Stage

BEGIN_US = 800_000  # The topic exists at that time.


class CoordinatorLoad:
    def __init__(self, world: Stage) -> None:
        self._world = world
        self._rng = random.Random(f"coordinators {world.settings.seed}")
        self.groups = GroupChecker(scheduler=world.scheduler, fail=world.fail, coverage=world.coverage)
        self.shares = ShareLoad(world, leader_of=self._leader_of, coordinator_of=self._coordinator_of)
        self._producers: list[tuple[SimClient, TransactionalProducer]] = []
        self._members: list[tuple[SimClient, ClassicMember | ConsumerMember]] = []
        self._real: list[RealTransactionalProducer] = []
        self._real_members: list[RealMember] = []
        self._tasks: list[asyncio.Task[Any]] = []  # Any: nobody uses what they return

    def begin(self) -> None:
        world, settings = self._world, self._world.settings
        for number in range(settings.transactional_producers):
            client = world.new_client(f"transactional-{number}")
            producer = self._stand_in(f"tx-{number}", client)
            self._producers.append((client, producer))
            world.scheduler.at(BEGIN_US, lambda c=client, p=producer: self._spawn(c, p.run()))  # type: ignore[misc]
        for number in range(settings.real_producers):
            self._begin_real_producer(number)
        for number in range(settings.real_members):
            self._begin_real_member(number)
        for number in range(settings.classic_members):
            self._begin_member(ClassicMember, "classic", number)
        for number in range(settings.consumer_members):
            self._begin_member(ConsumerMember, "consumer", number)
        self.shares.begin(BEGIN_US)

    def _begin_real_producer(self, number: int) -> None:
        world, rng = self._world, random.Random(f"real producer {number} of {self._world.settings.seed}")
        name = f"real-{number}"
        real = RealTransactionalProducer(
            name=name,
            bootstrap=world.bootstrap,
            topic=TOPIC,
            partitions=world.settings.partitions,
            scheduler=world.scheduler,
            network=world.network,
            rng=rng,
            checker=world.transactions,
            coverage=world.coverage,
            fail=world.fail,
        )
        self._real.append(real)
        world.client_hosts.append(name)
        world.scheduler.at(BEGIN_US, real.begin)

    def _begin_real_member(self, number: int) -> None:
        world, rng = self._world, random.Random(f"real member {number} of {self._world.settings.seed}")
        name, protocol = f"real-member-{number}", ("classic", "consumer")[world.settings.seed % 2]
        real = RealMember(
            name=name,
            group=f"real-{protocol}",
            protocol=protocol,
            bootstrap=world.bootstrap,
            topic=TOPIC,
            scheduler=world.scheduler,
            network=world.network,
            rng=rng,
            checker=self.groups,
            coordinator_of=self._coordinator_of,
            coverage=world.coverage,
            fail=world.fail,
        )
        self._real_members.append(real)
        world.client_hosts.append(name)
        world.scheduler.at(BEGIN_US + 300_000 * number, real.begin)

    def _real_clients(self) -> list[RealTransactionalProducer | RealMember]:
        return [*self._real, *self._real_members]

    def _offsets_of(self, real: RealTransactionalProducer) -> tuple[SimClient, TransactionalProducer]:
        """A client that reads the committed offsets of this producer's group. It sends no records."""
        client = self._world.new_client(f"offsets-{real.name}")
        return client, self._stand_in(real.name, client)

    def _stand_in(self, name: str, client: SimClient) -> TransactionalProducer:
        world = self._world
        return TransactionalProducer(
            name=name,
            client=client,
            topic=TOPIC,
            partitions=world.settings.partitions,
            leader_of=self._leader_of,
            coordinator_of=self._coordinator_of,
            rng=random.Random(self._rng.random()),
            checker=world.transactions,
            coverage=world.coverage,
            fail=world.fail,
        )

    def _begin_member(self, kind: type[ClassicMember] | type[ConsumerMember], group: str, number: int) -> None:
        world = self._world
        client = world.new_client(f"{group}-member-{number}")
        member = kind(
            group=group,
            topic=TOPIC,
            partitions=world.settings.partitions,
            topic_id=self._topic_id,
            coordinator_of=self._coordinator_of,
            client=client,
            scheduler=world.scheduler,
            rng=random.Random(self._rng.random()),
            checker=self.groups,
            coverage=world.coverage,
        )
        self._members.append((client, member))
        begin_us = BEGIN_US + self._rng.randrange(1_500_000)
        world.scheduler.at(begin_us, lambda: self._spawn(client, member.run()))

    def _spawn(self, client: SimClient, work: Coroutine[Any, Any, None]) -> None:
        client.loop.run_callback(lambda: self._tasks.append(client.loop.create_task(work)))

    def _leader_of(self, key: Key) -> int:
        state = self._world.quorum.image.partition(*key)
        return -1 if state is None else state.leader

    def _coordinator_of(self, kind: int, key: str) -> Place:
        image, name = self._world.quorum.image, OFFSETS_TOPIC if kind == GROUP else TRANSACTIONS_TOPIC
        topic = image.topics.get(name)
        state = None if topic is None else topic.partitions[partition_for(key, len(topic.partitions))]
        return (-1, -1) if state is None else (state.leader, state.leader_epoch)

    def _topic_id(self) -> UUID | None:
        topic = self._world.quorum.image.topics.get(TOPIC)
        return None if topic is None else topic.topic_id

    # -- the end -----------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """The clients begin nothing new from now on."""
        for _, producer in self._producers:
            producer.is_over = True
        for _, member in self._members:
            member.is_over = True
        for real in self._real_clients():
            real.is_over = True
        self.shares.be_patient()

    @property
    def is_done(self) -> bool:
        zombies = [each for _, producer in self._producers for each in producer.zombies]
        if not all(each.is_done for each in self._real_clients()):
            return False
        return all(each.done() for each in (*self._tasks, *zombies)) and not self._world.transactions.has_open

    def waiting_text(self) -> str:
        return f"open transactions: {self._world.transactions.open_text() or 'none'}"

    def compare(self) -> None:
        self._world.transactions.compare()
        self._tasks.clear()
        for client, producer in (*self._producers, *map(self._offsets_of, self._real)):
            self._spawn(client, producer.check_offset())

    def dispose(self) -> None:
        for real in self._real_clients():
            real.dispose()

    def is_compared(self) -> bool:
        return all(each.done() for each in self._tasks)
