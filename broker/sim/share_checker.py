"""Invariants of share groups (KIP-932), on the leaders of partitions and as members see them.

The checker has a model of its own: which member holds which record until when, how often each record was delivered, and
which records are final. `share_watch` tells it what the brokers do, `share_members` what members were told. What the
share coordinators keep is judged by `share_state_checker`.

A state epoch begins when the offsets of a group are set anew. A leader that does not know that it was replaced may
deliver records again: its leader epoch or its state epoch is older. So each promise holds within one state epoch, for
the leader epoch in which it was given and for later ones. An unclean election of the partition or of the log with its
state ends all promises.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.node.features.share_groups.delivery.deliveries import Acquired, Limits
from broker.node.features.share_groups.delivery.partition import ACCEPT, REJECT, RELEASE, RENEW, Acknowledgement
from broker.node.features.share_groups.delivery.state_batches import DeliveryState
from broker.sim.coverage import Coverage
from broker.sim.invariants.groups import (
    AcceptedRecordIsNotDeliveredAgain,
    DeliveryCountOnlyGrows,
    OneHolderOfARecordAtATime,
    ShareStartOffsetPassesFinalRecordsOnly,
)
from broker.sim.invariants.invariant import Fail
from broker.sim.partition_checker import PartitionChecker
from broker.sim.partition_truth import Key
from broker.sim.share_state_checker import Epochs, ShareKey, ShareStateChecker, is_lost
from broker.wire.errors import ErrorCode

if TYPE_CHECKING:
    from broker.node.features.share_groups.live_share import LiveShare
    from broker.node.features.share_groups.states.shard import StateResult
    from broker.sim.cluster import Life

_STATE_AFTER = {ACCEPT: DeliveryState.ACKNOWLEDGED, REJECT: DeliveryState.ARCHIVED}


@dataclass(slots=True, kw_only=True, eq=False)
class Lock:
    member: str
    deadline_ms: int
    is_answering: bool = False  # the member has acknowledged the record, and the outcome is open


@dataclass(slots=True, kw_only=True, eq=False)
class Loaded:
    """One load of a share partition by a leader: what it may do with each record."""

    key: ShareKey
    log: Key
    epochs: Epochs
    start_offset: int
    limits: Limits
    # The key is the offset, the value the count at the last delivery.
    counts: dict[int, int] = field(default_factory=dict)
    locks: dict[int, Lock] = field(default_factory=dict)
    final: set[int] = field(default_factory=set)
    now_ms: int = 0  # The leader's clock when it last delivered records or ended locks.

    def name(self, offset: int) -> str:
        return f"{self.key[0]}, {self.log[0]}-{self.log[1]} offset {offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a member asked of a leader: the kind of acknowledgement of each record that it holds."""

    kinds: dict[int, int]
    locks: dict[int, Lock]
    at_ms: int


class ShareChecker:
    def __init__(self, *, fail: Fail, coverage: Coverage, partitions: PartitionChecker) -> None:
        self._coverage, self._partitions = coverage, partitions
        self._not_again, self._one_holder = AcceptedRecordIsNotDeliveredAgain(fail), OneHolderOfARecordAtATime(fail)
        self._count, self._start = DeliveryCountOnlyGrows(fail), ShareStartOffsetPassesFinalRecordsOnly(fail)
        self.states = ShareStateChecker(fail=fail, partitions=partitions)
        self._loads: dict[LiveShare, Loaded] = {}
        self._of_loop: dict[AbstractEventLoop, list[LiveShare]] = {}
        # (share partition, member, offset) -> the newest epochs of the leaders that took its acknowledgement.
        self._asked: dict[tuple[ShareKey, str, int], Epochs] = {}
        self._confirmed: dict[ShareKey, dict[int, Epochs]] = {}
        self.deliveries = 0

    def _is_void(self, loaded: Loaded) -> bool:
        return is_lost(self._partitions, loaded.key, loaded.log)

    # -- what leaders do ---------------------------------------------------------------------------------------------

    def loaded(self, live: LiveShare, state: StateResult, limits: Limits, loop: AbstractEventLoop) -> None:
        """The leader whose loop this is has loaded a share partition from this state, and begins to deliver records."""
        assert live.core is not None
        loaded = Loaded(
            key=(live.group_id, live.place),
            log=live.hosted.key,
            epochs=(state.state_epoch, live.leader_epoch),
            start_offset=live.core.start_offset,
            limits=limits,
        )
        for batch in state.batches:
            offsets = range(batch.first_offset, batch.last_offset + 1)
            loaded.counts.update(dict.fromkeys(offsets, batch.delivery_count))
            if DeliveryState(batch.state).is_final:
                loaded.final.update(offsets)
        if state.batches:
            self._coverage.reached("share partition loaded with deliveries")
        self._loads[live] = loaded
        self._of_loop.setdefault(loop, []).append(live)

    def acquired(self, live: LiveShare, member: str, ranges: Sequence[Acquired], now_ms: int) -> None:
        loaded = self._loads.get(live)
        if loaded is None or self._is_void(loaded):
            return
        loaded.now_ms = now_ms
        limits, confirmed = loaded.limits, self._confirmed.get(loaded.key, {})
        for each in ranges:
            for offset in range(each.first_offset, each.last_offset + 1):
                lock, where = loaded.locks.get(offset), loaded.name(offset)
                self._not_again.check(where, member, confirmed=confirmed.get(offset), epochs=loaded.epochs)
                left_ms = 0 if lock is None else lock.deadline_ms - now_ms
                self._one_holder.check(where, member, holder=None if lock is None else lock.member, left_ms=left_ms)
                before = loaded.counts.get(offset, 0)
                self._count.check(where, each.delivery_count, before=before, limit=limits.delivery_count_limit)
                if lock is not None:
                    self._coverage.reached("lock of a record timed out")
                if confirmed.get(offset, loaded.epochs)[1] > loaded.epochs[1]:
                    self._coverage.reached("accepted record delivered by a replaced leader")
                loaded.counts[offset] = each.delivery_count
                loaded.locks[offset] = Lock(member=member, deadline_ms=now_ms + limits.lock_duration_ms)
                self.deliveries += 1

    def locks_ended(self, live: LiveShare, now_ms: int) -> None:
        """A leader has ended all locks whose time is over."""
        if live in self._loads:
            self._loads[live].now_ms = now_ms

    def asked(self, live: LiveShare, member: str, acks: Sequence[Acknowledgement], now_ms: int) -> Asked:
        """A leader handles acknowledgements of a member. `answered` tells the outcome."""
        asked = Asked(kinds={}, locks={}, at_ms=now_ms)
        loaded = self._loads.get(live)
        if loaded is None:
            return asked
        for ack in acks:
            for offset in range(ack.first_offset, ack.last_offset + 1):
                lock = loaded.locks.get(offset)
                if lock is not None and lock.member == member:
                    asked.kinds[offset] = ack.types[0] if len(ack.types) == 1 else ack.types[offset - ack.first_offset]
                    asked.locks[offset] = lock
                    lock.is_answering = asked.kinds[offset] != RENEW
                    name = (loaded.key, member, offset)
                    self._asked[name] = max(loaded.epochs, self._asked.get(name, loaded.epochs))
        return asked

    def answered(self, live: LiveShare, asked: Asked, error: ErrorCode) -> None:
        loaded = self._loads.get(live)
        if loaded is None:
            return
        for offset, kind in asked.kinds.items():
            lock = asked.locks[offset]
            lock.is_answering = False
            if error is not ErrorCode.none:
                continue
            if kind == RENEW:
                lock.deadline_ms = asked.at_ms + loaded.limits.lock_duration_ms
            else:
                self._lock_ended(loaded, offset, lock, kind)

    def held(self, live: LiveShare, member: str) -> Asked:
        """The records that a member holds and has not acknowledged. Its session ends, and they are released."""
        loaded = self._loads.get(live)
        items = () if loaded is None else loaded.locks.items()
        locks = {at: lock for at, lock in items if lock.member == member and not lock.is_answering}
        if loaded is not None:  # the others have ended already
            locks = {at: lock for at, lock in locks.items() if lock.deadline_ms > loaded.now_ms}
        for lock in locks.values():
            lock.is_answering = True  # a session that ends once more does not release them again
        return Asked(kinds=dict.fromkeys(locks, RELEASE), locks=locks, at_ms=0)

    def _lock_ended(self, loaded: Loaded, offset: int, lock: Lock, kind: int) -> None:
        """A leader has said that this acknowledgement is written."""
        if loaded.locks.get(offset) is lock:
            del loaded.locks[offset]
        count = loaded.counts[offset]
        is_last = count >= loaded.limits.delivery_count_limit
        state = _STATE_AFTER.get(kind, DeliveryState.ARCHIVED if is_last else DeliveryState.AVAILABLE)
        if state.is_final:
            loaded.final.add(offset)
        self.states.confirmed(loaded.key, loaded.epochs, offset, int(state), count)

    # -- what members are told ---------------------------------------------------------------------------------------

    def confirmed(self, key: ShareKey, member: str, offset: int, kind: int) -> None:
        """A member was told that its acknowledgement is done. Only the acceptance or rejection of a record that it
        held promises something."""
        epochs = self._asked.get((key, member, offset))
        if epochs is not None and kind in _STATE_AFTER:
            known = self._confirmed.setdefault(key, {})
            known[offset] = max(epochs, known.get(offset, epochs))

    # -- after each event --------------------------------------------------------------------------------------------

    def look(self, life: Life) -> None:
        """Check the start offsets of the share partitions of a broker."""
        for live in self._of_loop.get(life.loop, ()):
            core, loaded = live.core, self._loads[live]
            if core is None or core.start_offset == loaded.start_offset:
                continue
            core.check_invariants()
            start_offset = core.start_offset
            if not self._is_void(loaded):
                skipped = self._open_record(loaded, start_offset, live.hosted.log.log_start_offset)
                where = loaded.name(start_offset)
                self._start.moved(where, start_offset, before=loaded.start_offset, open_offset=skipped)
            loaded.start_offset = start_offset

    def _open_record(self, loaded: Loaded, start_offset: int, log_start_offset: int) -> int | None:
        now_ms, limit = loaded.now_ms, loaded.limits.delivery_count_limit
        for offset in range(max(loaded.start_offset, log_start_offset), start_offset):
            lock = loaded.locks.get(offset)
            is_used_up = loaded.counts.get(offset, 0) >= limit and (lock is None or lock.deadline_ms <= now_ms)
            if is_used_up:
                self._coverage.reached("record archived after its last delivery")
            if offset not in loaded.final and not is_used_up and not self._is_hidden(loaded.log, offset):
                return offset
        return None

    def _is_hidden(self, log: Key, offset: int) -> bool:
        """Whether no member gets this record: a marker, or a record of an aborted transaction."""
        batches = self._partitions.committed(log)
        position = next((at for at, each in enumerate(batches) if each.base_offset <= offset <= each.last_offset), None)
        if position is None:
            return False
        batch = batches[position]
        if batch.is_control:
            return True
        markers = (each for each in batches[position:] if each.is_control and each.producer_id == batch.producer_id)
        marker = next(markers, None)
        return batch.is_transactional and marker is not None and not marker.is_commit
