"""Simulated members of consumer groups: the classic protocol (JoinGroup, SyncGroup) and the new one (KIP-848).

A member works on its partitions by committing larger and larger offsets. It may leave, die, or sleep longer than its
session and continue as a zombie. If a commit gets no answer, the member dies, because this commit could still arrive at
any later time in its generation.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from broker.sim.clients import SimClient
from broker.sim.coordinator_client import GROUP, CoordinatorClient, Place, error_code
from broker.sim.coverage import Coverage
from broker.sim.group_checker import GroupChecker
from broker.sim.scheduler import Scheduler
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request

if TYPE_CHECKING:
    from broker.wire.shapes.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequestFields,
        ConsumerGroupHeartbeatResponse,
    )
    from broker.wire.shapes.join_group import JoinGroupResponse
    from broker.wire.shapes.offset_commit import OffsetCommitResponse
    from broker.wire.shapes.offset_fetch import OffsetFetchResponse
    from broker.wire.shapes.sync_group import SyncGroupRequestAssignmentFields

SESSION_MS = 1_000
REBALANCE_MS = 700
# Longer than any lease, so a member that does not give up a partition in time has lost its session before.
CONSUMER_REBALANCE_MS = 4_000
HEARTBEAT_S = 0.1
LEASE_SHARE = 0.9  # share of a session; below 1, because clocks run at different rates
OFFSET_COMMIT_VERSION, OFFSET_FETCH_VERSION = 9, 8
GONE = frozenset(
    {
        ErrorCode.illegal_generation,
        ErrorCode.unknown_member_id,
        ErrorCode.fenced_member_epoch,
        ErrorCode.stale_member_epoch,
        ErrorCode.fenced_instance_id,
    }
)


class _Stop(Exception):
    """This life of the member ends."""


class _Member:
    """What both protocols share: offsets, and a new life after each end."""

    def __init__(
        self,
        *,
        group: str,
        topic: str,
        partitions: int,
        topic_id: Callable[[], UUID | None],
        coordinator_of: Callable[[int, str], Place],
        client: SimClient,
        scheduler: Scheduler,
        rng: random.Random,
        checker: GroupChecker,
        coverage: Coverage,
    ) -> None:
        self.is_over = False
        self._group, self._topic, self._partitions, self._topic_id = group, topic, partitions, topic_id
        self._client, self._scheduler = client, scheduler
        self._rng, self._checker, self._coverage = rng, checker, coverage
        self._coordinator = CoordinatorClient(client=client, kind=GROUP, key=group, rng=rng, truth=coordinator_of)
        self.member_id = ""
        self._generation = -1  # or member epoch
        self._positions: dict[int, int] = {}  # It has only the partitions that the member owns.
        self._has_overslept = False

    async def run(self) -> None:
        while not self.is_over:
            self.member_id, self._generation, self._positions = "", -1, {}
            with contextlib.suppress(_Stop):
                await self._live()
            await asyncio.sleep(self._rng.uniform(0.02, 0.4))

    async def _live(self) -> None:
        raise NotImplementedError

    async def _fetch_positions(self, indexes: set[int]) -> None:
        if not indexes:
            return
        floors = {index: self._checker.floor(self._group, index) for index in indexes}
        message = request(
            ApiKey.OFFSET_FETCH,
            OFFSET_FETCH_VERSION,
            groups=[{"group_id": self._group, "topics": [{"name": self._topic, "partition_indexes": sorted(indexes)}]}],
            require_stable=True,
        )

        def error_of(answer: OffsetFetchResponse) -> ErrorCode:
            return answer.groups[0].error_code

        limit_s = self._coordinator.now_s() + 1
        answer = await self._coordinator.ask(
            ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, message, error_of, deadline_s=limit_s
        )
        if answer is None or error_of(answer) is not ErrorCode.none or not self._coordinator.is_answer_current:
            raise _Stop  # a replaced coordinator may not have the latest offsets
        for partition in answer.groups[0].topics[0].partitions:
            if partition.error_code is ErrorCode.none:
                index, offset = partition.partition_index, partition.committed_offset
                self._checker.fetched(self._group, index, offset, floor=floors[index])
                self._positions[index] = max(0, offset)

    async def _commit(self) -> ErrorCode:
        """Commit an offset of one partition that the member owns."""
        index = self._rng.choice(sorted(self._positions))
        offset = self._positions[index] + self._rng.randrange(1, 4)
        message = request(
            ApiKey.OFFSET_COMMIT,
            OFFSET_COMMIT_VERSION,
            group_id=self._group,
            generation_id_or_member_epoch=self._generation,
            member_id=self.member_id,
            topics=[
                {
                    "name": self._topic,
                    "partitions": [
                        {
                            "partition_index": index,
                            "committed_offset": offset,
                            "committed_leader_epoch": -1,
                            "committed_metadata": "",
                        }
                    ],
                }
            ],
        )

        def error_of(answer: OffsetCommitResponse) -> ErrorCode:
            return answer.topics[0].partitions[0].error_code

        self._checker.committing(self._group, index, offset)
        limit_s = self._coordinator.now_s() + 1
        answer = await self._coordinator.ask(
            ApiKey.OFFSET_COMMIT, OFFSET_COMMIT_VERSION, message, error_of, deadline_s=limit_s, asks_once=True
        )
        if answer is None:
            raise _Stop
        error = error_of(answer)
        if error is ErrorCode.none:
            self._positions[index] = offset
            self._checker.committed(self._group, index, offset)
        elif error in GONE:
            self._coverage.reached("commit of an old generation refused")
        return error

    async def _fate(self) -> bool:
        """Decide by chance what the member does. True: it continues, perhaps after a sleep longer than its session.
        False: it leaves. Now and then it dies."""
        fate = self._rng.random()
        if fate < 0.01:
            raise _Stop
        if fate < 0.02:
            await self._oversleep()
        elif fate < 0.03:
            return False
        elif fate < 0.05 and self._positions:  # more often, because a zombie that owns something is more interesting
            await self._oversleep()
        return True

    async def _oversleep(self) -> None:
        await asyncio.sleep(self._rng.uniform(1.2, 2.0))
        self._has_overslept = True

    def _wants_to_commit(self) -> bool:
        """A zombie always commits when it wakes, before a heartbeat tells it that it was removed from the group."""
        has_overslept, self._has_overslept = self._has_overslept, False
        return bool(self._positions) and (has_overslept or self._rng.random() < 0.6)


class ClassicMember(_Member):
    async def _live(self) -> None:
        while not self.is_over:
            self._positions = {}
            owned = await self._join()
            self._checker.assigned(self._group, self._generation, self.member_id, owned)
            await self._fetch_positions(owned)
            if not await self._work():
                return

    async def _join(self) -> set[int]:
        """JoinGroup and SyncGroup until there is an assignment."""
        self._coordinator.has_moved = False
        while not self.is_over:
            message = request(
                ApiKey.JOIN_GROUP,
                9,
                group_id=self._group,
                session_timeout=SESSION_MS,
                rebalance_timeout=REBALANCE_MS,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[{"name": "all", "metadata": b""}],
            )
            limit_s = self._coordinator.now_s() + 3
            answer = await self._coordinator.ask(
                ApiKey.JOIN_GROUP, 9, message, error_code, deadline_s=limit_s, timeout_ms=REBALANCE_MS + 600
            )
            if answer is None:
                raise _Stop
            if answer.error_code is ErrorCode.member_id_required:
                self.member_id = answer.member_id
            elif answer.error_code is ErrorCode.none:
                self.member_id, self._generation = answer.member_id, answer.generation_id
                owned = await self._sync(answer)
                if owned is not None:
                    if self._coordinator.has_moved:
                        self._coverage.reached("rebalance during a fail-over")
                    self._coverage.reached("classic member joined")
                    return owned
            else:
                self.member_id = "" if answer.error_code is ErrorCode.unknown_member_id else self.member_id
                await asyncio.sleep(0.03)
        raise _Stop

    async def _sync(self, joined: JoinGroupResponse) -> set[int] | None:
        """The assigned partitions. None: the member must join again."""
        assignments: list[SyncGroupRequestAssignmentFields] = []
        if joined.leader == self.member_id:
            members = sorted(each.member_id for each in joined.members)
            shares: dict[str, list[int]] = {each: [] for each in members}
            for index in range(self._partitions):
                shares[members[(index + self._generation) % len(members)]].append(index)
            assignments = [{"member_id": each, "assignment": bytes(share)} for each, share in shares.items()]
        message = request(
            ApiKey.SYNC_GROUP,
            5,
            group_id=self._group,
            generation_id=self._generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="all",
            assignments=assignments,
        )
        limit_s = self._coordinator.now_s() + 2
        answer = await self._coordinator.ask(
            ApiKey.SYNC_GROUP, 5, message, error_code, deadline_s=limit_s, timeout_ms=REBALANCE_MS + 600
        )
        if answer is None:
            raise _Stop
        return set(answer.assignment) if answer.error_code is ErrorCode.none else None

    async def _work(self) -> bool:
        """Send heartbeats and commits. True: the member must join again. False: it has left."""
        while not self.is_over:
            await asyncio.sleep(HEARTBEAT_S * self._rng.uniform(0.7, 1.3))
            if not await self._fate():
                await self._leave()
                return False
            if self._wants_to_commit() and await self._commit() in GONE:
                return True
            message = request(
                ApiKey.HEARTBEAT, 4, group_id=self._group, generation_id=self._generation, member_id=self.member_id
            )
            limit_s = self._coordinator.now_s() + 1.5
            answer = await self._coordinator.ask(ApiKey.HEARTBEAT, 4, message, error_code, deadline_s=limit_s)
            if answer is None:
                raise _Stop
            if answer.error_code is not ErrorCode.none:
                if answer.error_code is ErrorCode.unknown_member_id:
                    self.member_id = ""
                return True
        return False

    async def _leave(self) -> None:
        message = request(
            ApiKey.LEAVE_GROUP, 5, group_id=self._group, members=[{"member_id": self.member_id, "reason": None}]
        )
        limit_s = self._coordinator.now_s() + 0.5
        await self._coordinator.ask(ApiKey.LEAVE_GROUP, 5, message, error_code, deadline_s=limit_s)


class ConsumerMember(_Member):
    """KIP-848: the coordinator assigns partitions. A member first gives up partitions and then gets others."""

    def _lease_until_us(self, sent_us: int) -> int:
        """Until when the member owns its partitions. An answer of a replaced coordinator does not extend the session,
        because the new coordinator does not know of it."""
        if self._coordinator.is_answer_current:
            self._lease_us = sent_us + int(SESSION_MS * 1000 * LEASE_SHARE)
        return self._lease_us

    async def _live(self) -> None:
        self.member_id = str(UUID(int=self._rng.getrandbits(128)))
        self._generation = 0
        self._lease_us = 0
        self._coordinator.has_moved = False
        try:
            while not self.is_over:
                await self._beat()
                await asyncio.sleep(HEARTBEAT_S * self._rng.uniform(0.5, 1.2))
                if not await self._fate():
                    self._checker.lets_go(self._group, self.member_id)
                    self._positions = {}
                    await self._ask_heartbeat(-1)
                    return
                if self._wants_to_commit():
                    await self._commit()
        finally:
            self._checker.lets_go(self._group, self.member_id)

    async def _ask_heartbeat(self, epoch: int) -> ConsumerGroupHeartbeatResponse | None:
        values: ConsumerGroupHeartbeatRequestFields = {
            "group_id": self._group,
            "member_id": self.member_id,
            "member_epoch": epoch,
        }
        if epoch >= 0:
            owned = sorted(self._positions)
            values["rebalance_timeout"] = CONSUMER_REBALANCE_MS
            values["subscribed_topic_names"] = [self._topic]
            values["topic_partitions"] = [{"topic_id": self._topic_id(), "partitions": owned}] if owned else []
        message = request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **values)
        limit_s = self._coordinator.now_s() + 1.5
        return await self._coordinator.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, message, error_code, deadline_s=limit_s)

    async def _beat(self) -> None:
        sent_us = self._scheduler.now_us
        answer = await self._ask_heartbeat(self._generation)
        if answer is None:
            raise _Stop
        if answer.error_code is not ErrorCode.none:
            self._checker.lets_go(self._group, self.member_id)
            self._positions = {}
            if answer.error_code not in GONE:
                raise _Stop
            self._generation = 0  # fenced, so it joins again
            return
        self._generation = answer.member_epoch
        owned = set(self._positions)
        if answer.assignment is not None:
            assigned = {index for each in answer.assignment.topic_partitions for index in each.partitions}
            if owned - assigned:
                self._coverage.reached("partition revoked from a member")
            self._checker.lets_go(self._group, self.member_id, owned - assigned)
            for index in owned - assigned:
                del self._positions[index]
            self._checker.owns(self._group, self.member_id, assigned, lease_until_us=self._lease_until_us(sent_us))
            await self._fetch_positions(assigned - owned)
            if assigned - owned:
                self._coverage.reached("consumer member assigned")
                if self._coordinator.has_moved:
                    self._coverage.reached("rebalance during a fail-over")
                    self._coordinator.has_moved = False
        else:
            self._checker.owns(self._group, self.member_id, owned, lease_until_us=self._lease_until_us(sent_us))
