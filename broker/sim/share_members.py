"""Simulated members of a share group (KIP-932).

A member joins by heartbeats and reads its partitions with a share session on each leader. It accepts, releases and
rejects records, renews locks, and forgets records until their locks end. It may leave, die, sleep longer than its
session, or go on reading without heartbeats. At the end it accepts all that it gets.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from broker.node.features.share_groups.delivery.partition import ACCEPT, REJECT, RELEASE, RENEW
from broker.node.features.share_groups.delivery.sessions import FINAL_EPOCH, FIRST_EPOCH
from broker.sim.clients import SimClient
from broker.sim.coordinator_client import GROUP, CoordinatorClient, error_code
from broker.sim.share_scene import ShareScene
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request

if TYPE_CHECKING:
    from broker.wire.shapes.share_acknowledge import AcknowledgementBatchFields
    from broker.wire.shapes.share_fetch import FetchPartitionFields
    from broker.wire.shapes.share_fetch import PartitionData as FetchedPartition

FETCH_VERSION = ACKNOWLEDGE_VERSION = 2
HEARTBEAT_VERSION = 1
HEARTBEAT_S = 0.12
WAIT_MS = 50
LATE_S = 0.9  # longer than the lock of a record
KINDS = (ACCEPT, RELEASE, REJECT)
KIND_WEIGHTS = (70, 20, 10)
LEAVE_EPOCH = -1
GONE = frozenset({ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch})


class _Stop(Exception):
    """This life of the member ends."""


@dataclass(slots=True, kw_only=True)
class _Session:
    """A share session on one broker."""

    epoch: int = FIRST_EPOCH
    partitions: set[int] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class _Held:
    """A record that the member has, and what it will do with it."""

    offset: int
    kind: int
    due_s: float


class ShareMember:
    def __init__(
        self,
        *,
        scene: ShareScene,
        client: SimClient,
        rng: random.Random,
    ) -> None:
        self.is_over = False
        self.is_away = False  # the member leaves its group, and joins it again when this is False
        self.is_patient = False  # at the end: it accepts all that it gets, and does nothing else
        self._scene, self._group, self._topic, self._topic_id = scene, scene.group, scene.topic, scene.topic_id
        self._client, self._rng, self._coverage = client, rng, scene.coverage
        self._coordinator = CoordinatorClient(
            client=client, kind=GROUP, key=scene.group, rng=rng, truth=scene.coordinator_of
        )
        self._begin_life()

    def _begin_life(self) -> None:
        self.member_id = str(UUID(int=self._rng.getrandbits(128)))
        self._epoch = 0
        self._assigned: set[int] = set()
        self._leaders: dict[int, int] = {}  # partition -> the broker that it last asked
        self._sessions: dict[int, _Session] = {}
        self._held: dict[tuple[int, int], list[_Held]] = {}  # (broker, partition)
        self._next_beat_s = 0.0
        self._beats_no_more = False

    async def run(self) -> None:
        while not self.is_over:
            if not self.is_away or self.is_patient:
                self._begin_life()
                with contextlib.suppress(_Stop):
                    await self._live()
                self._client.hang_up()
            await asyncio.sleep(self._rng.uniform(0.02, 0.3))

    async def _live(self) -> None:
        while not self.is_over:
            if self._now_s() >= self._next_beat_s and not self._beats_no_more:
                await self._beat()
                self._next_beat_s = self._now_s() + HEARTBEAT_S * self._rng.uniform(0.6, 1.2)
            if not self.is_patient and not await self._fate():
                break
            await self._round()
            await asyncio.sleep(self._rng.uniform(0.002, 0.05))
        await self._leave()

    def _now_s(self) -> float:
        return self._client.loop.time()

    async def _fate(self) -> bool:
        """Decide by chance what the member does. False: it leaves."""
        fate = self._rng.random()
        if fate < 0.006:
            raise _Stop
        if fate < 0.012:
            await asyncio.sleep(self._rng.uniform(1.2, 2.0))
        elif fate < 0.018 or (self.is_away and fate < 0.5):
            self._beats_no_more = True
        elif fate < 0.024 or (self.is_away and fate < 0.98) or (self._beats_no_more and fate < 0.04):
            return False
        return True

    # -- the group ---------------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        message = request(
            ApiKey.SHARE_GROUP_HEARTBEAT,
            HEARTBEAT_VERSION,
            group_id=self._group,
            member_id=self.member_id,
            member_epoch=self._epoch,
            rack_id=None,
            subscribed_topic_names=[self._topic],
        )
        limit_s = self._now_s() + 1.5
        answer = await self._coordinator.ask(
            ApiKey.SHARE_GROUP_HEARTBEAT, HEARTBEAT_VERSION, message, error_code, deadline_s=limit_s
        )
        if answer is None:
            if not self.is_patient:
                raise _Stop
        elif answer.error_code is ErrorCode.none:
            self._epoch = answer.member_epoch
            if answer.assignment is not None:
                topics = answer.assignment.topic_partitions
                self._assigned = {index for each in topics for index in each.partitions}
                self._coverage.reached("share member assigned")
        elif answer.error_code in GONE:
            self._coverage.reached("share member fenced")
            self._epoch = 0  # it joins again, and keeps its sessions and its records
        else:
            raise _Stop

    async def _leave(self) -> None:
        for node_id in list(self._sessions):
            await self._acknowledge(node_id, self._due(node_id, is_last=True), ends_session=True)
        message = request(
            ApiKey.SHARE_GROUP_HEARTBEAT,
            HEARTBEAT_VERSION,
            group_id=self._group,
            member_id=self.member_id,
            member_epoch=LEAVE_EPOCH,
            rack_id=None,
            subscribed_topic_names=None,
        )
        limit_s = self._now_s() + 0.5
        await self._coordinator.ask(
            ApiKey.SHARE_GROUP_HEARTBEAT, HEARTBEAT_VERSION, message, error_code, deadline_s=limit_s
        )

    # -- records -----------------------------------------------------------------------------------------------------

    async def _round(self) -> None:
        """Read from each leader once, and acknowledge what is due."""
        for index in self._assigned:
            if index not in self._leaders or self._rng.random() < 0.7:
                self._leaders[index] = self._scene.leader_of((self._topic, index))
        wanted: dict[int, set[int]] = {}
        for index in sorted(self._assigned):
            wanted.setdefault(self._leaders[index], set()).add(index)
        for node_id in sorted({*wanted, *(node_id for node_id, _ in self._held)}):
            if node_id < 0:
                continue
            acks = self._due(node_id) if node_id in self._sessions else {}
            is_renewing = any(kind == RENEW for kinds in acks.values() for kind in kinds.values())
            if acks and (is_renewing or node_id not in wanted or self._rng.random() < 0.3):
                await self._acknowledge(node_id, acks, is_renewing=is_renewing)
            elif node_id in wanted:
                await self._fetch(node_id, wanted[node_id], acks)

    def _due(self, node_id: int, *, is_last: bool = False) -> dict[int, dict[int, int]]:
        """Take the acknowledgements that are due now: for each partition, the kind for each offset."""
        now_s, found = self._now_s(), dict[int, dict[int, int]]()
        for node_and_index in [each for each in self._held if each[0] == node_id]:
            held = self._held[node_and_index]
            due = [each for each in held if is_last or each.due_s <= now_s]
            kept = [each for each in held if each not in due]
            for each in due:
                found.setdefault(node_and_index[1], {})[each.offset] = ACCEPT if is_last else each.kind
                if each.kind == RENEW and not is_last:
                    kept.append(_Held(offset=each.offset, kind=ACCEPT, due_s=now_s + self._rng.uniform(0.1, 0.5)))
            if kept:
                self._held[node_and_index] = kept
            else:
                del self._held[node_and_index]
        return found

    def _take(self, node_id: int, partition: FetchedPartition) -> None:
        """Decide what to do with the records that were acquired."""
        index, rng = partition.partition_index, self._rng
        self._scene.delivered(node_id, self.member_id, partition)
        held = self._held.setdefault((node_id, index), [])
        for acquired in partition.acquired_records:
            first, last = acquired.first_offset, acquired.last_offset
            draw, kind = rng.random(), rng.choices(KINDS, KIND_WEIGHTS)[0]
            for offset in range(first, last + 1):
                due_s = self._now_s() + rng.uniform(0, 0.1)
                if self.is_patient:
                    held.append(_Held(offset=offset, kind=ACCEPT, due_s=due_s))
                elif draw < 0.08:
                    break  # it forgets the records, and their locks end
                elif draw < 0.14:
                    held.append(_Held(offset=offset, kind=kind, due_s=due_s + LATE_S))
                elif draw < 0.2:
                    held.append(_Held(offset=offset, kind=RENEW, due_s=due_s))
                else:
                    one = rng.choices(KINDS, KIND_WEIGHTS)[0] if draw < 0.4 else kind
                    held.append(_Held(offset=offset, kind=one, due_s=due_s))
        if not held:
            del self._held[(node_id, index)]

    # -- requests ----------------------------------------------------------------------------------------------------

    async def _fetch(self, node_id: int, wanted: set[int], acks: dict[int, dict[int, int]]) -> None:
        session, topic_id, rng = self._sessions.setdefault(node_id, _Session()), self._topic_id(), self._rng
        named = sorted({*(wanted - session.partitions), *acks})
        forgotten = sorted(session.partitions - wanted)
        partitions: list[FetchPartitionFields] = [
            {"partition_index": index, "acknowledgement_batches": _batches(acks.get(index, {}))} for index in named
        ]
        message = request(
            ApiKey.SHARE_FETCH,
            FETCH_VERSION,
            group_id=self._group,
            member_id=self.member_id,
            share_session_epoch=session.epoch,
            max_wait=WAIT_MS,
            min_bytes=1,
            max_bytes=rng.choice((300, 1 << 20)),
            max_records=rng.choice((1, 3, 20, 500)),
            batch_size=rng.choice((1, 5, 500)),
            share_acquire_mode=rng.randrange(2),
            is_renew_ack=False,
            topics=[{"topic_id": topic_id, "partitions": partitions}] if partitions else [],
            forgotten_topics_data=[{"topic_id": topic_id, "partitions": forgotten}] if forgotten else [],
        )
        answer = await self._client.ask(node_id, ApiKey.SHARE_FETCH, FETCH_VERSION, message)
        if answer is None or answer.error_code is not ErrorCode.none:
            self._session_ended(node_id, is_refused=answer is not None)
            return
        session.epoch, session.partitions = session.epoch + 1, set(wanted)
        for topic in answer.responses:
            for partition in topic.partitions:
                index, error = partition.partition_index, ErrorCode(partition.acknowledge_error_code)
                self._answered(index, acks.get(index, {}), error)
                if partition.error_code is not ErrorCode.none:
                    self._leaders.pop(index, None)
                elif partition.acquired_records:
                    self._take(node_id, partition)

    async def _acknowledge(
        self,
        node_id: int,
        acks: dict[int, dict[int, int]],
        *,
        is_renewing: bool = False,
        ends_session: bool = False,
    ) -> None:
        session = self._sessions[node_id]
        message = request(
            ApiKey.SHARE_ACKNOWLEDGE,
            ACKNOWLEDGE_VERSION,
            group_id=self._group,
            member_id=self.member_id,
            share_session_epoch=FINAL_EPOCH if ends_session else max(session.epoch, 1),
            is_renew_ack=is_renewing,
            topics=[
                {
                    "topic_id": self._topic_id(),
                    "partitions": [
                        {"partition_index": index, "acknowledgement_batches": _batches(kinds)}
                        for index, kinds in sorted(acks.items())
                    ],
                }
            ],
        )
        answer = await self._client.ask(node_id, ApiKey.SHARE_ACKNOWLEDGE, ACKNOWLEDGE_VERSION, message)
        if answer is None or answer.error_code is not ErrorCode.none:
            self._session_ended(node_id, is_refused=answer is not None)
            return
        session.epoch += 1
        for topic in answer.responses:
            for partition in topic.partitions:
                self._answered(partition.partition_index, acks.get(partition.partition_index, {}), partition.error_code)

    def _session_ended(self, node_id: int, *, is_refused: bool) -> None:
        self._sessions.pop(node_id, None)
        if is_refused:
            self._coverage.reached("share session refused")

    def _answered(self, index: int, kinds: dict[int, int], error: ErrorCode) -> None:
        if error is ErrorCode.none:
            self._scene.acknowledged(self.member_id, index, kinds)
        elif kinds:
            self._scene.refused()


def _batches(kinds: dict[int, int]) -> list[AcknowledgementBatchFields]:
    """Offsets without a gap are one batch, with one type for all or one for each."""
    runs: list[list[int]] = []
    for offset in sorted(kinds):
        if runs and runs[-1][-1] == offset - 1:
            runs[-1].append(offset)
        else:
            runs.append([offset])
    return [
        {"first_offset": run[0], "last_offset": run[-1], "acknowledge_types": _types([kinds[each] for each in run])}
        for run in runs
    ]


def _types(kinds: list[int]) -> list[int]:
    return kinds[:1] if len(set(kinds)) == 1 else kinds
