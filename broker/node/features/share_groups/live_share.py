"""One share partition on its leader: the state machine (delivery/partition.py), its loading and its writes.

While a write is under way, later changes wait and are written together in the next one. So there is one write at a
time, and the start offset never goes back. If the coordinator says that this leader's epoch or the state epoch is out
of date, the share partition is dropped. The next request for it loads it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from broker.node.features.share_groups.delivery.partition import Acknowledgement, Change, Refusal, SharePartition
from broker.node.features.share_groups.delivery.state_batches import NO_START_OFFSET, StateBatch, combine
from broker.node.features.share_groups.group_settings import GroupSettings, first_offset
from broker.node.features.share_groups.persister import Persister, Place, StateToWrite
from broker.node.features.share_groups.states.shard import StateResult
from broker.node.process.clock import monotonic_ms
from broker.node.replicas.hosted import HostedPartition
from broker.node.replicas.partition_readers import Wakes
from broker.wire.errors import ErrorCode

LOAD_RETRY_MS = 1_000  # some errors come at once, for example if the state topic cannot be created
START_POLL_MS = 20  # how often a new leader checks whether it knows the high watermark
Told: TypeAlias = Callable[[ErrorCode, str | None], None]

# The coordinator's error -> the client's error (as in Kafka's SharePartition).
_ERRORS = {
    ErrorCode.not_coordinator: ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress: ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_not_available: ErrorCode.coordinator_not_available,
    ErrorCode.network_exception: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.group_id_not_found: ErrorCode.group_id_not_found,
    ErrorCode.unknown_topic_or_partition: ErrorCode.unknown_topic_or_partition,
    ErrorCode.fenced_state_epoch: ErrorCode.fenced_state_epoch,
    ErrorCode.fenced_leader_epoch: ErrorCode.not_leader_or_follower,
}
_FENCED = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_state_epoch,
        ErrorCode.group_id_not_found,
        ErrorCode.unknown_topic_or_partition,
    }
)


class LiveShare:
    def __init__(
        self,
        *,
        group_id: str,
        place: Place,
        hosted: HostedPartition,
        persister: Persister,
        settings: Callable[[], GroupSettings],
        spawn: Callable[..., object],
        on_fenced: Callable[[LiveShare], None],
    ) -> None:
        self.group_id, self.place, self.hosted = group_id, place, hosted
        self.leader_epoch = hosted.replica.leader_epoch
        self.core: SharePartition | None = None  # None: it is still loading
        self.wakes = Wakes()  # fetches that wait for records, or for the end of loading
        self.is_dropped = False
        self._persister, self._settings, self._spawn, self._on_fenced = persister, settings, spawn, on_fenced
        self._state_epoch = 0
        self._queued: list[tuple[Sequence[StateBatch], Told]] = []
        self._is_writing = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_current(self) -> bool:
        replica = self.hosted.replica
        return not self.is_dropped and replica.is_leader and replica.leader_epoch == self.leader_epoch

    # -- loading -----------------------------------------------------------------------------------------------------

    async def load(self) -> ErrorCode:
        """Loads the state. It tries until the state is loaded or this broker is no longer the leader."""
        while self.is_current:
            result = await self._persister.read(self.group_id, self.place, self.leader_epoch)
            error = _error_of(result)
            if error is ErrorCode.coordinator_not_available:
                await asyncio.sleep(LOAD_RETRY_MS / 1000)
                continue
            if error is not ErrorCode.none:
                return error
            self._state_epoch = result.state_epoch
            start_offset = result.start_offset
            if start_offset == NO_START_OFFSET:
                start_offset = await self._begin()
                if start_offset == NO_START_OFFSET:
                    return ErrorCode.coordinator_not_available
            if self.is_current:
                core = SharePartition(start_offset=start_offset, batches=result.batches, limits=self._settings().limits)
                core.log_start_moved(self.hosted.log.log_start_offset)
                self.core = core
            return ErrorCode.none
        return ErrorCode.not_leader_or_follower

    async def _begin(self) -> int:
        """Chooses the offset at which the group begins, and writes it at once. Otherwise the next leader could begin at
        a later end of the log."""
        replica = self.hosted.replica
        while self.is_current and replica.high_watermark < replica.leader_epoch_start_offset:
            await asyncio.sleep(START_POLL_MS / 1000)  # a new leader does not know the high watermark yet
        if not self.is_current:
            return NO_START_OFFSET
        steps = first_offset(self.hosted, self._settings().offset_reset)
        try:
            while True:
                next(steps)
                await asyncio.sleep(0)  # a look-up by time reads the log, in steps of bounded work
                if not self.is_current:
                    return NO_START_OFFSET
        except StopIteration as end:
            start_offset = end.value
        result = await self._persister.write(self.group_id, self.place, self._state(start_offset, 0, ()))
        return start_offset if _error_of(result) is ErrorCode.none else NO_START_OFFSET

    def _state(self, start_offset: int, count: int, batches: Sequence[StateBatch]) -> StateToWrite:
        return StateToWrite(
            state_epoch=self._state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=count,
            batches=batches,
        )

    # -- changes -----------------------------------------------------------------------------------------------------

    def acknowledge(self, member: str, acks: Sequence[Acknowledgement], told: Told) -> None:
        """`told` is called exactly once: when the acknowledgement is written or refused."""
        core = self.core
        if core is None or not self.is_current:
            told(ErrorCode.not_leader_or_follower, None)
            return
        core.limits = self._settings().limits
        change = core.acknowledge(member, acks, monotonic_ms())
        if isinstance(change, Refusal):
            told(change.error_code, change.message)
            return
        self._write_change(core, change, told)

    def release(self, member: str, told: Told) -> None:
        """Releases the records of a member whose session ended."""
        if self.core is None or not self.is_current:
            told(ErrorCode.none, None)
            return
        self._write_change(self.core, self.core.release(member), told)

    def _write_change(self, core: SharePartition, change: Change, told: Told) -> None:
        def written(error: ErrorCode, message: str | None) -> None:
            core.persisted(change.token, is_written=error is ErrorCode.none)
            told(error, message)
            self.moved()

        if change.batches:
            self._write(change.batches, written)
        else:
            written(ErrorCode.none, None)

    def moved(self) -> None:
        """Records may have become available, and locks have begun or ended."""
        self.wakes.call_all()
        self.set_timer()

    def set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = None if self.core is None else self.core.next_deadline_ms()
        if deadline_ms is not None and self.is_current:
            wait_ms = max(0, deadline_ms - monotonic_ms())
            self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._locks_due)

    def _locks_due(self) -> None:
        self._timer = None
        if self.core is None or not self.is_current:
            return
        self.core.limits = self._settings().limits
        batches = self.core.tick(monotonic_ms())
        if batches:
            self._write(batches, _nobody_waits)
        self.moved()

    # -- writes ------------------------------------------------------------------------------------------------------

    def _write(self, batches: Sequence[StateBatch], told: Told) -> None:
        self._queued.append((batches, told))
        if not self._is_writing:
            self._is_writing = True
            self._spawn(self._write_all())

    async def _write_all(self) -> None:
        while self._queued:
            core = self.core
            assert core is not None, "only what is loaded changes"
            queued, self._queued = self._queued, []
            batches = combine((), [each for some, _ in queued for each in some], start_offset=core.start_offset)
            state = self._state(core.start_offset, core.delivery_complete_count(), batches)
            error, message = ErrorCode.not_leader_or_follower, None
            if self.is_current:
                result = await self._persister.write(self.group_id, self.place, state)
                error, message = _error_of(result), result.message
            for _, told in queued:
                told(error, message)
            if error in _FENCED:
                self._on_fenced(self)
        self._is_writing = False

    def drop(self) -> None:
        """Drops the share partition. Waiting fetches look again, and find another leader or a share partition that is
        loading."""
        self.is_dropped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.wakes.call_all()


def _error_of(result: StateResult) -> ErrorCode:
    if result.error_code is ErrorCode.none:
        return ErrorCode.none
    return _ERRORS.get(result.error_code, ErrorCode.unknown_server_error)


def _nobody_waits(error: ErrorCode, message: str | None) -> None:
    return None
