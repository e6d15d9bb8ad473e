"""Members of a share group that decide with the reference client's core: its membership, sessions and acknowledgements.

Only the threads and connections are the simulation's. The application of a member accepts, releases and rejects
records, renews locks, and is slow at times. Its process is killed now and then. It does nothing that a good client does
not do; `share_members.py` has the others.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from broker.client.core.batch import TopicPartition
from broker.client.core.errors import KafkaError
from broker.client.core.groups.events import (
    CoordinatorGone,
    CoordinatorReady,
    DropCoordinator,
    Event,
    Leave,
    LeftAnswered,
    SendShareHeartbeat,
    StepDone,
    Subscribe,
    Tick,
    TopicInfo,
    TopicsKnown,
)
from broker.client.core.groups.heartbeats import LEAVE_EPOCH
from broker.client.core.groups.share import ShareMember
from broker.client.core.metadata import MetadataCache
from broker.client.core.shares.config import parse_share_consumer
from broker.client.core.shares.fetcher import ShareFetcher
from broker.client.core.shares.values import AcknowledgeType, ShareAnswer, ShareRecord, ShareRequest
from broker.client.group_requests import membership_event, membership_request
from broker.client.protocol import metadata_answer, metadata_request
from broker.client.share_requests import acknowledged, fetched, share_acknowledge_request, share_fetch_request
from broker.sim.clients import SimClient
from broker.sim.coordinator_client import GROUP, CoordinatorClient
from broker.sim.share_scene import ShareScene
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode

VERSION = 2  # The version of ShareFetch and ShareAcknowledge.
HEARTBEAT_VERSION = 1
METADATA_VERSION = 12
PAUSE_S = 0.01
KINDS = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW)
KIND_WEIGHTS = (70, 15, 10, 5)


class ShareCoreMember:
    def __init__(self, *, scene: ShareScene, client: SimClient, rng: random.Random) -> None:
        self.is_over = False
        self.is_away = False  # the member leaves its group, and joins it again when this is False
        self.is_patient = False  # at the end: it accepts all that it gets
        self.scene, self.client, self.rng = scene, client, rng
        self.coordinator = CoordinatorClient(
            client=client, kind=GROUP, key=scene.group, rng=rng, truth=scene.coordinator_of
        )

    async def run(self) -> None:
        while not self.is_over:
            if not self.is_away or self.is_patient:
                process = _Process(self)
                await process.run()
                process.is_dead = True
                self.client.hang_up()
            await asyncio.sleep(self.rng.uniform(0.02, 0.3))


class _Process:
    """One life of a member."""

    def __init__(self, owner: ShareCoreMember) -> None:
        rng, scene = owner.rng, owner.scene
        self.is_dead = False
        self._owner, self._scene, self._client, self._rng = owner, scene, owner.client, rng
        properties = {
            "bootstrap.servers": scene.bootstrap,
            "group.id": scene.group,
            "share.acquire.mode": rng.choice(("batch_optimized", "record_limit")),
            "fetch.max.wait.ms": 50,
            "max.poll.records": rng.choice((1, 5, 50)),
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 100,
        }
        self._config = parse_share_consumer(properties)
        self._metadata = MetadataCache(max_age_ms=2_000, backoff_first_ms=20, backoff_max_ms=100, rng=rng)
        self._fetcher = ShareFetcher(self._config, self._metadata, rng)
        self._member = ShareMember(self._config, rng)
        self._has_coordinator = self._is_finding = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._records: list[ShareRecord] = []
        self._idle_until_s = 0.0

    def _now_ms(self) -> int:
        return int(self._client.loop.time() * 1000)

    async def run(self) -> None:
        owner = self._owner
        self._metadata.use_topic(self._scene.topic, self._now_ms())
        self._handle(Subscribe(topics=frozenset({self._scene.topic})))
        while not owner.is_over:
            fate = 1.0 if owner.is_patient else self._rng.random()
            if fate < 0.001:
                return  # its process is killed
            if fate < 0.002 or (owner.is_away and not owner.is_patient):
                break
            self._look()
            await asyncio.sleep(PAUSE_S * self._rng.uniform(0.5, 2))
        await self._leave()

    async def _leave(self) -> None:
        self._fetcher.acknowledge_all(AcknowledgeType.RELEASE)
        self._fetcher.flush()
        for node_id, request in self._fetcher.plan_close().items():
            self._send(node_id, request)
        self._handle(Leave(reason="the application closes"))
        await asyncio.wait(self._tasks) if self._tasks else None
        self._take_outcomes()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._client.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- the application ---------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """One turn of the application and of the client."""
        now_ms = self._now_ms()
        self._handle(Tick(polled_ms=now_ms))
        if self._member.step() is not None:
            step = self._member.begin_step()
            self._fetcher.assign(step.remaining)
            self._handle(StepDone())
            if step.assigned:
                self._scene.coverage.reached("share member with the client's core assigned")
        if self._client.loop.time() >= self._idle_until_s or self._owner.is_patient:
            self._work(now_ms)
        self._take_outcomes()
        wants_records = self._fetcher.unacknowledged == 0
        for node_id, request in self._fetcher.plan(now_ms, wants_records=wants_records).items():
            self._send(node_id, request)
        due_ms = self._metadata.next_request_ms()
        if due_ms is not None and due_ms <= now_ms:
            self._spawn(self._ask_metadata(self._metadata.on_request(now_ms)))
        if self._member.is_active and not self._has_coordinator and not self._is_finding:
            self._is_finding = True
            self._spawn(self._find())
        self._fetcher.check_invariants()
        self._member.check_invariants()

    def _work(self, now_ms: int) -> None:
        """Acknowledge the records of the last turn, and take new ones."""
        for record in self._records:
            kind = AcknowledgeType.ACCEPT if self._owner.is_patient else self._rng.choices(KINDS, KIND_WEIGHTS)[0]
            self._fetcher.acknowledge(TopicPartition(record.topic, record.partition), record.offset, kind)
        try:
            self._records = self._fetcher.take(self._config.max_poll_records, now_ms)
        except KafkaError:
            self._records = []  # the application goes on
        slow_s = 0.9 if self._rng.random() < 0.05 else 0.05  # longer than a lock, or not
        self._idle_until_s = self._client.loop.time() + self._rng.uniform(0, slow_s)

    def _take_outcomes(self) -> None:
        for outcome in self._fetcher.take_outcomes():
            if outcome.error is not None:
                self._scene.refused()
            else:
                kinds = {offset: int(kind) for offset, kind in outcome.types.items()}
                self._scene.acknowledged(self._member.member_id, outcome.partition.partition, kinds)

    # -- the group ---------------------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        for action in self._member.handle(event, self._now_ms()):
            if isinstance(action, SendShareHeartbeat):
                self._spawn(self._beat(action))
            elif isinstance(action, DropCoordinator):
                self._coordinator_gone()

    def _coordinator_gone(self) -> None:
        self._owner.coordinator.forget()
        self._has_coordinator = False
        self._handle(CoordinatorGone())

    async def _find(self) -> None:
        is_found = await self._owner.coordinator.find()
        self._is_finding = False
        if is_found and not self.is_dead:
            self._has_coordinator = True
            self._handle(CoordinatorReady())

    async def _beat(self, action: SendShareHeartbeat) -> None:
        node_id = self._owner.coordinator.node_id
        message: Any = membership_request(action, HEARTBEAT_VERSION, self._config)  # a ShareGroupHeartbeat
        answer: Any = None
        if node_id >= 0:
            answer = await self._client.ask(node_id, ApiKey.SHARE_GROUP_HEARTBEAT, HEARTBEAT_VERSION, message)
        if self.is_dead:
            return
        if action.member_epoch == LEAVE_EPOCH:
            self._handle(LeftAnswered())
        elif answer is None:
            self._coordinator_gone()
        else:
            self._handle(membership_event(action, answer))

    # -- brokers -----------------------------------------------------------------------------------------------------

    async def _ask_metadata(self, topics: list[str]) -> None:
        node_id = self._rng.choice(self._client.node_ids)
        message = metadata_request(METADATA_VERSION, topics, auto_create=False)
        answer = await self._client.ask(node_id, ApiKey.METADATA, METADATA_VERSION, message)
        if self.is_dead:
            return
        if answer is None:
            self._metadata.on_failure(self._now_ms())
            return
        self._metadata.on_answer(metadata_answer(answer), self._now_ms())
        topic = self._metadata.topic(self._scene.topic)
        if topic is not None:
            info = TopicInfo(partitions=len(topic.partitions), topic_id=topic.topic_id)
            self._handle(TopicsKnown(topics={topic.name: info}, is_answer=True))

    def _send(self, node_id: int, request: ShareRequest) -> None:
        self._fetcher.on_sent(node_id, request)
        self._spawn(self._ask(node_id, request))

    async def _ask(self, node_id: int, asked: ShareRequest) -> None:
        client, member_id = self._client, self._member.member_id
        answer: ShareAnswer | None = None
        if asked.is_fetch:
            fetch = share_fetch_request(VERSION, self._config, member_id, asked)
            told = await client.ask(node_id, ApiKey.SHARE_FETCH, VERSION, fetch)
            if told is not None:
                answer = fetched(told)
                for partition in (each for topic in told.responses for each in topic.partitions):
                    self._scene.delivered(node_id, member_id, partition)
        else:
            acknowledge = share_acknowledge_request(VERSION, self._config, member_id, asked)
            done = await client.ask(node_id, ApiKey.SHARE_ACKNOWLEDGE, VERSION, acknowledge)
            answer = None if done is None else acknowledged(done)
        if self.is_dead:
            return
        if answer is None:
            error = KafkaError(ErrorCode.network_exception, "no answer", definite=False)
            self._fetcher.on_failed(node_id, error, self._now_ms())
        else:
            self._fetcher.on_answer(node_id, answer, self._now_ms())
