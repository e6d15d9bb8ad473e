"""Clients of both protocols that read one topic as a group, for tests of groups that change their protocol.

`held` is what a client reads from. The classic one assigns when it leads: with `range` it gives everything up before it
joins, with `cooperative-sticky` it keeps what it has and gives up only what moves (KIP-429).
"""

from __future__ import annotations

from typing import Any

from group_world import TOPICS, GroupWorld

from broker.coordinator.groups.embedded import decode_assignment, decode_subscription, encode_assignment
from broker.coordinator.groups.events import ConsumerHeartbeatResult, JoinResult, SyncResult
from broker.wire.errors import ErrorCode

T = TOPICS["t"].topic_id
PARTITIONS = frozenset(range(TOPICS["t"].partitions))
EAGER, COOPERATIVE = "range", "cooperative-sticky"


def subscription(owned: frozenset[int] = frozenset()) -> bytes:
    listed = b"\0\0\0\0"
    if owned:
        parts = b"".join(each.to_bytes(4, "big") for each in sorted(owned))
        listed = b"\0\0\0\1\0\1t" + len(owned).to_bytes(4, "big") + parts
    return b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff" + listed


def assignment(*partitions: int) -> bytes:
    return encode_assignment({T: frozenset(partitions)}, {T: "t"}, version=1)


class ClassicClient:
    def __init__(self, world: GroupWorld, *, protocol: str = EAGER, instance_id: str | None = None) -> None:
        self.world, self.protocol, self.instance_id = world, protocol, instance_id
        self.member_id, self.generation = "", -1
        self.held: frozenset[int] = frozenset()
        self.join_token: int | None = None
        self.sync_token: int | None = None
        self.must_join = True

    def step(self) -> None:
        if self.join_token is not None:
            self._joined(self.join_token)
        elif self.sync_token is not None:
            self._synced(self.sync_token)
        elif self.must_join:
            self._join()
        else:
            self._meet(self.world.heartbeat(self.member_id, self.generation, self.instance_id))

    def _join(self) -> None:
        if self.protocol == EAGER:
            self.held = frozenset()
        self.join_token = self.world.join(
            self.member_id,
            instance_id=self.instance_id,
            protocols=((self.protocol, subscription(self.held)),),
            needs_known_member_id=True,
        )

    def _meet(self, error: ErrorCode) -> None:
        if error is not ErrorCode.none:
            self.must_join = True
        if error in (ErrorCode.illegal_generation, ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
            self.held, self.generation = frozenset(), -1
        if error in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
            self.member_id = ""

    def _joined(self, token: int) -> None:
        if token not in self.world.asked:
            self.join_token = None  # lost with the old coordinator
            return
        if not self.world.is_answered(token):
            return
        self.join_token = None
        result = self.world.answer(token, JoinResult)
        if result.error_code is ErrorCode.member_id_required:
            self.member_id = result.member_id
        elif result.error_code is ErrorCode.none:
            self.member_id, self.generation, self.must_join = result.member_id, result.generation, False
            leads = result.leader == self.member_id and not result.skip_assignment
            self.sync_token = self.world.sync(
                self.member_id,
                self.generation,
                self._assign(result) if leads else {},
                instance_id=self.instance_id,
                protocol=result.protocol,
            )
        else:
            self._meet(result.error_code)

    def _assign(self, result: JoinResult) -> dict[str, bytes]:
        """Evenly; who owns partitions keeps its share of them, and nobody gets what another one still owns."""
        owned = {member: decode_subscription(data).owned.get("t", frozenset()) for member, _, data in result.members}
        share, longer = divmod(len(PARTITIONS), len(owned))
        taken: set[int] = set()
        given: dict[str, list[int]] = {}
        for place, member in enumerate(sorted(owned, key=lambda each: (-len(owned[each]), each))):
            mine = [each for each in sorted(owned[member]) if each not in taken][: share + (place < longer)]
            given[member] = mine
            taken.update(mine)
        still_owned = frozenset[int]().union(*owned.values())
        for index in sorted(PARTITIONS - taken):
            member = min(given, key=lambda each: (len(given[each]), each))
            given[member].append(index)
        return {
            member: assignment(*(each for each in mine if each in owned[member] or each not in still_owned))
            for member, mine in given.items()
        }

    def _synced(self, token: int) -> None:
        if token not in self.world.asked:
            self.sync_token, self.must_join = None, True
            return
        if not self.world.is_answered(token):
            return
        self.sync_token = None
        result = self.world.answer(token, SyncResult)
        if result.error_code is ErrorCode.none:
            new = decode_assignment(result.assignment)[0].get("t", frozenset())
            self.must_join = bool(self.held - new)  # KIP-429: once more without what it had to give up
            self.held = new
        else:
            self._meet(result.error_code)

    def leave(self) -> None:
        if self.member_id:
            self.world.leave((self.member_id, self.instance_id))
        self.vanish()

    def vanish(self) -> None:
        self.member_id, self.generation, self.must_join = "", -1, True
        self.held, self.join_token, self.sync_token = frozenset(), None, None


class NewClient:
    def __init__(self, world: GroupWorld, name: str, *, instance_id: str | None = None) -> None:
        self.world, self.member_id, self.instance_id = world, name, instance_id
        self.generation = 0
        self.held: frozenset[int] = frozenset()

    def step(self) -> None:
        changes: dict[str, Any] = {} if self.generation == 0 else {"owned": {T: self.held} if self.held else {}}
        result = self.world.beat(self.member_id, self.generation, instance_id=self.instance_id, **changes)
        assert isinstance(result, ConsumerHeartbeatResult)
        if result.error_code is not ErrorCode.none:
            self.vanish()
            return
        self.generation = result.member_epoch
        if result.assignment is not None:
            self.held = result.assignment.get(T, frozenset())

    def leave(self, epoch: int = -1) -> None:
        if self.generation > 0 and (epoch == -1 or self.instance_id is not None):
            self.world.beat(self.member_id, epoch, instance_id=self.instance_id)
        self.vanish()

    def vanish(self) -> None:
        self.generation, self.held = 0, frozenset()
