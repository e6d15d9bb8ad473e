"""The share group of one run: its members, an administrator that sets its offsets anew, and what the run waits for.

Share coordinators prune their logs every five minutes. A run is shorter, so this load asks for it more often.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from broker.controller.group_configs import SHARE_ISOLATION, SHARE_OFFSET_RESET
from broker.controller.image import GROUP_RESOURCE
from broker.controller.setting_types import AlterConfigs, ConfigChange
from broker.node.features.share_groups.part import SharePart
from broker.sim.clients import SimClient
from broker.sim.cluster import SHARE_STATE_PARTITIONS, host_of
from broker.sim.coordinator_client import GROUP, CoordinatorClient, Place, error_code
from broker.sim.partition_truth import Key
from broker.sim.plan import TOPIC
from broker.sim.share_core_members import ShareCoreMember
from broker.sim.share_members import ShareMember
from broker.sim.share_scene import ShareScene
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request

if TYPE_CHECKING:
    from broker.node.broker import Broker
    from broker.node.features.share_groups.live_share import LiveShare
    from broker.sim.stage import Stage
    from broker.wire.shapes.alter_share_group_offsets import AlterShareGroupOffsetsRequestPartitionFields

GROUP_ID = "share"
SETTING_US = 60_000  # how often it looks whether the settings of the group are in the metadata
BEGIN_WITHIN_US = 1_000_000
CUT_AT_US, CUT_FOR_US = (1_800_000, 4_500_000), 1_500_000  # longer than broker.session.timeout.ms
PRUNE_US = 400_000
NEW_OFFSETS_SHARE = 0.7  # So many of the seeds with a share group have new offsets.
ISOLATIONS = ("read_committed", "read_uncommitted")
AWAY_S = 2.5  # longer than a session of a member that sends no more heartbeats


class ShareLoad:
    def __init__(
        self, world: Stage, *, leader_of: Callable[[Key], int], coordinator_of: Callable[[int, str], Place]
    ) -> None:
        self._world, self._leader_of, self._coordinator_of = world, leader_of, coordinator_of
        self._rng = random.Random(f"share group {world.settings.seed}")
        self._scene = ShareScene(
            group=GROUP_ID,
            topic=TOPIC,
            bootstrap=world.bootstrap,
            topic_id=self._topic_id,
            leader_of=leader_of,
            coordinator_of=coordinator_of,
            checker=world.shares,
            partitions=world.partitions,
            coverage=world.coverage,
            fail=world.fail,
        )
        self._members: list[tuple[SimClient, ShareMember | ShareCoreMember]] = []
        self._tasks: list[asyncio.Task[Any]] = []  # Any: nobody uses what they return
        self._is_over = False

    def begin(self, at_us: int) -> None:
        world = self._world
        if not world.settings.share_members:
            return
        settings = {SHARE_OFFSET_RESET: "earliest", SHARE_ISOLATION: self._rng.choice(ISOLATIONS)}
        for number in range(world.settings.share_members):
            self._members.append(self._member(number))
        sets_offsets = self._rng.random() < NEW_OFFSETS_SHARE
        world.scheduler.at(at_us, lambda: self._set_up(settings, sets_offsets=sets_offsets))
        world.scheduler.at(at_us, self._prune)
        if world.settings.flush_messages is not None and not world.settings.directed:
            world.scheduler.at(self._rng.randrange(*CUT_AT_US), self._cut_leader_from_controller)

    def _member(self, number: int) -> tuple[SimClient, ShareMember | ShareCoreMember]:
        """Half of them decide with the core of the reference client. The others do what no good client does."""
        client, rng = self._world.new_client(f"share-member-{number}"), random.Random(self._rng.random())
        kind = ShareCoreMember if number % 2 else ShareMember
        return client, kind(scene=self._scene, client=client, rng=rng)

    def _topic_id(self) -> UUID | None:
        topic = self._world.quorum.image.topics.get(TOPIC)
        return None if topic is None else topic.topic_id

    def _set_up(self, settings: dict[str, str], *, sets_offsets: bool) -> None:
        """Set the settings of the group. When they are in the metadata, the members begin."""
        world = self._world
        image = world.quorum.image
        if dict(image.group_configs.get(GROUP_ID, {})) == settings and TOPIC in image.topics:
            for client, member in self._members:
                delay_us = self._rng.randrange(BEGIN_WITHIN_US)
                world.scheduler.after(delay_us, lambda c=client, m=member: self._spawn(c, m.run()))  # type: ignore[misc]
            if sets_offsets:
                client = world.new_client("share-admin")
                self._spawn(client, self._set_offsets(client))
            return
        change = ConfigChange(resource_type=GROUP_RESOURCE, resource_name=GROUP_ID, changes=settings)
        for life in world.cluster.up():
            metadata = None if life.broker is None else life.broker.metadata
            if metadata is not None and metadata.controller.is_active:
                life.loop.run_callback(
                    lambda metadata=metadata: metadata.controller_request(  # type: ignore[misc]
                        lambda token: AlterConfigs(token=token, resources=(change,)), lambda response: None
                    )
                )
        world.scheduler.after(SETTING_US, lambda: self._set_up(settings, sets_offsets=sets_offsets))

    def _spawn(self, client: SimClient, work: Any) -> None:  # Any: a coroutine
        client.loop.run_callback(lambda: self._tasks.append(client.loop.create_task(work)))

    def _prune(self) -> None:
        """Every coordinator removes the records that it does not need."""
        if self._is_over:
            return
        for life in self._world.cluster.up():
            if life.broker is not None:
                states = _part_of(life.broker).states
                for index in range(SHARE_STATE_PARTITIONS):
                    life.loop.run_callback(lambda states=states, index=index: states.prune(index))  # type: ignore[misc]
        self._world.scheduler.after(PRUNE_US, self._prune)

    def _cut_leader_from_controller(self) -> None:
        """Cut the link between a leader and the controller only. Another broker is elected, and the old leader does not
        hear of it. Members and share coordinators still reach both."""
        world = self._world
        leader = self._leader_of((TOPIC, self._rng.randrange(world.settings.partitions)))
        lives = [life for life in world.cluster.up() if life.broker is not None]
        active = [life.node_id for life in lives if life.broker and life.broker.metadata.controller.is_active]
        if leader < 0 or not active or leader in active:
            return
        pairs = [(host_of(leader), host_of(active[0])), (host_of(active[0]), host_of(leader))]
        for source, target in pairs:
            world.network.cut(source, target)
        world.coverage.reached("leader cut off from the controller only")
        for source, target in pairs:
            world.scheduler.after(CUT_FOR_US, lambda s=source, t=target: world.network.heal(s, t))  # type: ignore[misc]

    # -- new offsets -------------------------------------------------------------------------------------------------

    async def _set_offsets(self, client: SimClient) -> None:
        """All members leave, or go on without being members, and the offsets of the group are set anew."""
        world, rng = self._world, self._rng
        await asyncio.sleep(rng.uniform(0.8, 3.0))
        for _, member in self._members:
            member.is_away = True
        coordinator = CoordinatorClient(client=client, kind=GROUP, key=GROUP_ID, rng=rng, truth=self._coordinator_of)
        limit_s = coordinator.now_s() + AWAY_S
        ends = [world.partitions.committed_end((TOPIC, index)) for index in range(world.settings.partitions)]
        partitions: list[AlterShareGroupOffsetsRequestPartitionFields] = [
            {"partition_index": index, "start_offset": rng.randrange(end + 1)} for index, end in enumerate(ends)
        ]
        message = request(
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            0,
            group_id=GROUP_ID,
            topics=[{"topic_name": TOPIC, "partitions": partitions}],
        )
        answer = await coordinator.ask(
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            0,
            message,
            error_code,
            deadline_s=limit_s,
            timeout_ms=1_000,
            repeats=frozenset({ErrorCode.non_empty_group}),
        )
        if answer is not None and answer.error_code is ErrorCode.none:
            world.coverage.reached("offsets of a share group set anew")
        for _, member in self._members:
            member.is_away = False

    # -- the end -----------------------------------------------------------------------------------------------------

    def be_patient(self) -> None:
        """The members accept all that they get from now on."""
        for _, member in self._members:
            member.is_patient = True

    def is_settled(self) -> bool:
        """Whether every record is done."""
        return not self._members or not self._unsettled()

    def end(self) -> None:
        self._is_over = True
        for _, member in self._members:
            member.is_over = True

    @property
    def is_done(self) -> bool:
        return all(each.done() for each in self._tasks)

    def waiting_text(self) -> str:
        return "; ".join(self._unsettled())

    def _unsettled(self) -> list[str]:
        found = []
        for index in range(self._world.settings.partitions):
            live = self._live(index)
            if live is None or live.core is None:
                found.append(f"{TOPIC}-{index} is not loaded")
            elif live.core.start_offset < live.hosted.replica.high_watermark:
                end = live.hosted.replica.high_watermark
                found.append(f"{TOPIC}-{index} is done up to {live.core.start_offset}, its records end at {end}")
        return found

    def _live(self, index: int) -> LiveShare | None:
        life = self._world.cluster.lives.get(self._leader_of((TOPIC, index)))
        topic_id = self._topic_id()
        if life is None or life.is_dead or life.broker is None or topic_id is None:
            return None
        live = _part_of(life.broker).shares._shares.get((GROUP_ID, (topic_id, index)))
        return live if live is not None and live.is_current else None


def _part_of(broker: Broker) -> SharePart:
    return next(part for part in broker._coordination.features if isinstance(part, SharePart))
