"""The group of a tape: its members, generations and assignments, as a coordinator keeps them. Pure.

The tape knows how many members its program has. So a newcomer beyond that number takes the place of the member that
was silent for longest: nobody waits for the session of a member that was killed, or that has forgotten its id. An id
that the group does not know is taken as it is, because a frame of the tape may have given it. Shown by
tests/harness/test_harness_tape_group.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from broker.door.protocol import ErrorCode

MEMBER: Final = "tape-member"
_OK: Final = 0


class _Stage(Enum):
    JOINING = auto()  # It waits for all members to join.
    SYNCING = auto()  # It waits for the leader's assignment.
    STABLE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a member says when it joins. Times are ms."""

    protocol_type: str
    protocols: Sequence[tuple[str, bytes]]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    instance: str | None = None


@dataclass(slots=True, kw_only=True)
class _Member:
    wish: Wish
    seen_ms: int
    is_waiting: bool = False  # for the end of the join
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """`others` is for the leader only: member, instance and metadata of each."""

    code: int = _OK
    generation: int = -1
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    member: str = ""
    others: Sequence[tuple[str, str | None, bytes]] = field(default_factory=tuple)


class Group:
    def __init__(self, members_max: int) -> None:
        self.generation = 0
        self._members_max = members_max
        self._members: dict[str, _Member] = {}  # in the order in which they came
        self._stage = _Stage.STABLE
        self._leader = ""
        self._protocol = ""
        self._deadline_ms = 0
        self._named = 0

    def join(self, member_id: str, wish: Wish, now_ms: int) -> str:
        """Returns the member's id. `joined` says when the join has ended."""
        if not member_id:
            self._named += 1
            member_id = f"{MEMBER}-{self._named}"
        known = self._members.get(member_id)
        same = known is not None and known.wish.protocols == wish.protocols
        if wish.instance is not None:
            for other in [name for name, one in self._members.items() if one.wish.instance == wish.instance]:
                if other != member_id:
                    del self._members[other]
        if known is None and len(self._members) >= self._members_max:
            idle = [name for name, one in self._members.items() if not one.is_waiting] or list(self._members)
            del self._members[min(idle, key=lambda name: self._members[name].seen_ms)]
        is_settled = self._stage is not _Stage.JOINING and same and member_id != self._leader
        if known is None:
            self._members[member_id] = _Member(wish=wish, seen_ms=now_ms, is_waiting=True)
        else:
            known.wish, known.seen_ms, known.is_waiting = wish, now_ms, not is_settled
        if not is_settled:
            self._rebalance(now_ms)
        return member_id

    def joined(self, member_id: str, now_ms: int) -> Joined | None:
        """None as long as others are waited for."""
        self._pass_time(now_ms)
        member = self._members.get(member_id)
        if member is None:
            return Joined(code=int(ErrorCode.unknown_member_id), member=member_id)
        member.seen_ms = now_ms
        if member.is_waiting:
            return None
        protocol = self._protocol
        others = [
            (name, one.wish.instance, dict(one.wish.protocols).get(protocol, b""))
            for name, one in self._members.items()
        ]
        return Joined(
            generation=self.generation,
            protocol_type=member.wish.protocol_type,
            protocol=protocol,
            leader=self._leader,
            member=member_id,
            others=others if member_id == self._leader else (),
        )

    def sync(self, member_id: str, generation: int, assignments: Mapping[str, bytes], now_ms: int) -> None:
        """Of the leader it takes the assignments. `synced` has the answer."""
        is_due = self._stage is _Stage.SYNCING and generation == self.generation and member_id == self._leader
        if is_due:
            for name, one in self._members.items():
                one.assignment = assignments.get(name, b"")
            self._stage = _Stage.STABLE

    def synced(self, member_id: str, generation: int, now_ms: int) -> tuple[int, bytes] | None:
        """(error code, assignment). None as long as the leader has given none."""
        code = self.code_of(member_id, generation, now_ms)
        if code:
            return code, b""
        return None if self._stage is _Stage.SYNCING else (_OK, self._members[member_id].assignment)

    def code_of(self, member_id: str, generation: int, now_ms: int) -> int:
        """Of a heartbeat."""
        self._pass_time(now_ms)
        member = self._members.get(member_id)
        if member is None:
            return int(ErrorCode.unknown_member_id)
        member.seen_ms = now_ms
        if generation != self.generation:
            return int(ErrorCode.illegal_generation)
        return int(ErrorCode.rebalance_in_progress) if self._stage is _Stage.JOINING else _OK

    def code_of_commit(self, member_id: str, generation: int, now_ms: int) -> int:
        """While others join, a member may still commit what it has. While the assignment is not known it may not."""
        if generation < 0:
            return _OK  # somebody who is no member
        code = self.code_of(member_id, generation, now_ms)
        if code == int(ErrorCode.rebalance_in_progress):
            return _OK
        return int(ErrorCode.rebalance_in_progress) if not code and self._stage is _Stage.SYNCING else code

    def leave(self, member_id: str, instance: str | None, now_ms: int) -> int:
        gone = next(
            (
                name
                for name, one in self._members.items()
                if name == member_id or (instance is not None and one.wish.instance == instance)
            ),
            None,
        )
        if gone is None:
            return int(ErrorCode.unknown_member_id)
        del self._members[gone]
        self._rebalance(now_ms)
        return _OK

    def _rebalance(self, now_ms: int) -> None:
        if self._stage is not _Stage.JOINING:
            self._stage = _Stage.JOINING
            longest_ms = max((one.wish.rebalance_timeout_ms for one in self._members.values()), default=0)
            self._deadline_ms = now_ms + longest_ms
        self._pass_time(now_ms)

    def _pass_time(self, now_ms: int) -> None:
        """Who was not heard of for a session is gone, if somebody else may have its partitions. So is who has not
        joined in time."""
        silent = [
            name
            for name, one in self._members.items()
            if not one.is_waiting and now_ms - one.seen_ms > one.wish.session_timeout_ms and len(self._members) > 1
        ]
        for name in silent:
            del self._members[name]
        if silent:
            self._rebalance(now_ms)
        if self._stage is not _Stage.JOINING:
            return
        if now_ms >= self._deadline_ms:
            self._members = {name: one for name, one in self._members.items() if one.is_waiting}
        if self._members and all(one.is_waiting for one in self._members.values()):
            self._complete(now_ms)

    def _complete(self, now_ms: int) -> None:
        self.generation += 1
        if self._leader not in self._members:
            self._leader = next(iter(self._members))
        offered = [dict(one.wish.protocols) for one in self._members.values()]
        wanted = [name for name, _ in self._members[self._leader].wish.protocols]
        self._protocol = next((name for name in wanted if all(name in each for each in offered)), wanted[0])
        for one in self._members.values():
            one.is_waiting, one.seen_ms, one.assignment = False, now_ms, b""
        self._stage = _Stage.SYNCING
