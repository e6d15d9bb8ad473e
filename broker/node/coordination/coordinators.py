"""The shell of a coordinator. It loads shards of an internal topic, appends for them, and answers when the append is
committed.

One CoordinatorHost per kind (groups, transactions, those of features). A partition of its topic that this broker leads
is a shard here: `loading` while the log is replayed, then `active`; it is dropped when the leadership or its epoch is
lost. The host knows no record format and no request. The shard (broker/coordinator) and the handlers know them. How to
use it: docs/internals/contracts.md.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from broker.controller.image import MetadataImage, PartitionState
from broker.coordinator.keys import partition_for
from broker.coordinator.runtime import Append, Emit, Ledger, Loaded, Reply, Shard, Tick
from broker.log.errors import STORAGE_ERRORS
from broker.node.cluster.controller_client import ControllerClient
from broker.node.coordination.loading import replay
from broker.node.coordination.topic_maker import InternalTopic, TopicMaker
from broker.node.process.clock import monotonic_ms, wall_ms
from broker.node.process.logs import Logger
from broker.node.replicas.hosted import HostedPartition
from broker.node.replicas.replicas import Replicas
from broker.wire.errors import CorruptBatchError, ErrorCode
from broker.wire.records import CodecId, encode_batch, iter_batches, validate_batches

S = TypeVar("S", bound=Shard)
Done: TypeAlias = Callable[[object], None]
Refused: TypeAlias = Callable[[ErrorCode], None]
KeyProblem: TypeAlias = Callable[[int, Sequence[str]], str | None]  # The arguments are (version, keys).

REQUESTS_OPEN_MAX = 20_000  # in each shard, including waiting joins; further requests get COORDINATOR_NOT_AVAILABLE
BLOCKED_TICK_MS = 200  # if a timer is due and the shard's log takes no appends, the next check is after this time
UNREAD_TOLD_MAX = 10  # so many records that were left out are told at one load
LOAD_TURN_MS = 20  # how long loading may block other work of this broker without a pause
RELOAD_MS = 1_000  # the wait after a defect dropped a shard, before it is loaded again


def _any_key(version: int, keys: Sequence[str]) -> None:
    return None


class _LostError(Exception):
    """The partition was lost while the shard wrote to it. What it wrote before may be in the log."""


@dataclass(slots=True, kw_only=True)
class _Request:
    done: Done
    refused: Refused


@dataclass(slots=True, kw_only=True, eq=False)
class _Slot(Generic[S]):
    """One partition of the internal topic that this broker leads."""

    index: int
    hosted: HostedPartition
    leader_epoch: int
    shard: S
    ledger: Ledger | None = None  # None: still loading
    is_failed: bool = False
    requests: dict[int, _Request] = field(default_factory=dict)
    timer: asyncio.TimerHandle | None = None
    is_settling: bool = False
    wake: Callable[[], None] | None = None

    @property
    def is_current(self) -> bool:
        replica = self.hosted.replica
        return not self.is_failed and replica.is_leader and replica.leader_epoch == self.leader_epoch


class CoordinatorHost(Generic[S]):
    """`make_shard(partition index)` builds an empty shard. `perform(index, effect)` carries out its Emit actions."""

    def __init__(
        self,
        *,
        topic: InternalTopic,
        broker_id: int,
        commit_timeout_ms: int,
        load_buffer_bytes: int,
        codec: CodecId,
        replicas: Replicas,
        control: ControllerClient,
        image: Callable[[], MetadataImage],
        logger: Logger,
        spawn: Callable[..., object],
        make_shard: Callable[[int], S],
        perform: Callable[[int, object], None],
        first_events: Callable[[], Sequence[object]] = tuple,
        stored: Callable[[S, Append, int], None] | None = None,
        key_problem: KeyProblem = _any_key,
    ) -> None:
        """`first_events` are events that a shard gets right after Loaded. `stored` is called after each append, with
        the offset of its first record. `key_problem` says why FindCoordinator refuses these keys in this version, or
        None."""
        self.topic, self.key_problem = topic, key_problem
        self._broker_id = broker_id
        self._commit_timeout_ms, self._load_buffer_bytes, self._codec = commit_timeout_ms, load_buffer_bytes, codec
        self._partitions, self._appends = replicas.partitions, replicas.appends
        self._image, self._logger = image, logger
        self._spawn, self._make_shard, self._perform = spawn, make_shard, perform
        self._first_events, self._stored = first_events, stored
        self._slots: dict[int, _Slot[S]] = {}
        self._next_token = 0
        self._maker = TopicMaker(topic, control=control, image=image, logger=logger)

    # -- the partition of a key --------------------------------------------------------------------------------------

    def partition_of(self, key: str) -> int | None:
        """The partition of a key. None while the topic does not exist."""
        state = self._image().topics.get(self.topic.name)
        return None if state is None else partition_for(key, len(state.partitions))

    def partition_state(self, key: str) -> PartitionState | None:
        index = self.partition_of(key)
        return None if index is None else self._image().partition(self.topic.name, index)

    def active_shards(self) -> Iterator[tuple[int, S]]:
        """(partition index, shard) of the shards that serve."""
        for index, slot in list(self._slots.items()):
            if slot.ledger is not None and slot.is_current:
                yield index, slot.shard

    def is_serving(self, index: int) -> bool:
        slot = self._slots.get(index)
        return slot is not None and slot.ledger is not None and slot.is_current

    def is_loading(self) -> bool:
        return any(slot.ledger is None and slot.is_current for slot in self._slots.values())

    async def ensure_topic(self) -> str | None:
        """Creates the topic unless it exists. Returns when this broker's image has it. If that failed, returns the
        reason."""
        return await self._maker.ensure()

    # -- requests ----------------------------------------------------------------------------------------------------

    def call(self, key: str, make_event: Callable[[int], object], *, done: Done, refused: Refused) -> None:
        """Gives `make_event(token)` to the shard of `key`. Exactly one of `done` and `refused` is called, perhaps at
        once.

        If `refused` gets NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS or COORDINATOR_NOT_AVAILABLE, nothing was done.
        With REQUEST_TIMED_OUT, or if the shard was lost after an append, the outcome is unknown.
        """
        index = self.partition_of(key)
        if index is None:
            refused(ErrorCode.not_coordinator)
            return
        self.call_partition(index, make_event, done=done, refused=refused)

    def call_partition(self, index: int, make_event: Callable[[int], object], *, done: Done, refused: Refused) -> None:
        slot = self._slots.get(index)
        self._next_token += 1
        token = self._next_token
        event = make_event(token)
        error = self._readiness(slot, event)
        if slot is None or error is not ErrorCode.none:
            refused(error)
            return
        if len(slot.requests) >= REQUESTS_OPEN_MAX:
            refused(ErrorCode.coordinator_not_available)
            return
        slot.requests[token] = _Request(done=done, refused=refused)
        self._handle(slot, event)

    def submit(self, index: int, event: object) -> ErrorCode:
        """Handles an event that has no answer. If the result is not `none`, it was not handled."""
        slot = self._slots.get(index)
        error = self._readiness(slot, event)
        if slot is not None and error is ErrorCode.none:
            self._handle(slot, event)
        return error

    def _readiness(self, slot: _Slot[S] | None, event: object) -> ErrorCode:
        if slot is None:
            return ErrorCode.not_coordinator
        if slot.is_failed:
            return ErrorCode.coordinator_not_available
        if not slot.is_current:
            return ErrorCode.not_coordinator
        if slot.ledger is None:
            return ErrorCode.coordinator_load_in_progress
        if slot.shard.may_append(event) and slot.hosted.replica.check_append(acks=-1) is not ErrorCode.none:
            return ErrorCode.coordinator_not_available
        return ErrorCode.none

    # -- events ------------------------------------------------------------------------------------------------------

    def _handle(self, slot: _Slot[S], event: object) -> None:
        now_ms = monotonic_ms()
        ledger = slot.ledger
        assert ledger is not None
        try:
            for action in slot.shard.handle(event, now_ms):
                if isinstance(action, Append):
                    self._append(slot, ledger, action)
                else:
                    deadline_ms = now_ms + self._commit_timeout_ms if isinstance(action, Reply) else None
                    ledger.wait(action, deadline_ms=deadline_ms)
        except _LostError:
            self._drop(slot, ErrorCode.not_coordinator)
            return
        except Exception:  # only the log is reliable: drop this state and load it again
            self._fail(slot, "event_failed", traceback.format_exc())
            return
        self._settle(slot)

    def _append(self, slot: _Slot[S], ledger: Ledger, action: Append) -> None:
        batch = encode_batch(
            [record.value for record in action.records],
            keys=[record.key for record in action.records],
            timestamps_ms=wall_ms(),
            codec=self._codec,
            producer_id=action.producer_id,
            producer_epoch=action.producer_epoch,
            transactional=action.is_transactional,
        )
        buffer = memoryview(bytearray(batch))
        outcome = self._appends.append(
            slot.hosted, buffer, validate_batches(buffer), client_id=f"coordinator-{self._broker_id}", correlation_id=-1
        )
        if outcome.error_code is not ErrorCode.none and not slot.is_current:
            raise _LostError  # its log is offline: there is nothing to load again
        if outcome.error_code is not ErrorCode.none:
            raise RuntimeError(f"append to {self.topic.name}-{slot.index}: {outcome.error_code.name}")
        ledger.append(action.number, outcome.required_offset)
        if self._stored is not None:
            self._stored(slot.shard, action, outcome.base_offset)

    def _settle(self, slot: _Slot[S]) -> None:
        """Performs the actions whose appends are committed, refuses those that are too late, and sets the timer.
        Effects may cause new events. This method does not call itself for them: the loop performs their actions too."""
        if slot.is_settling:
            return
        slot.is_settling = True
        try:
            while slot.ledger is not None and slot.is_current:
                slot.ledger.advance(slot.hosted.replica.high_watermark)
                action = slot.ledger.pop_ready()
                if action is not None:
                    self._release(slot, action)
                    continue
                late = slot.ledger.pop_expired(monotonic_ms())
                if late is None:
                    break
                if isinstance(late, Reply) and (waiting := slot.requests.pop(late.token, None)):
                    waiting.refused(ErrorCode.request_timed_out)
        finally:
            slot.is_settling = False
        self._set_timer(slot)

    def _release(self, slot: _Slot[S], action: Reply | Emit) -> None:
        try:
            if isinstance(action, Emit):
                self._perform(slot.index, action.effect)
            elif waiting := slot.requests.pop(action.token, None):
                waiting.done(action.response)
        except Exception:  # one answer that fails must not stop the others
            self._logger.error("coordinator_answer_failed", topic=self.topic.name, cause=repr(traceback.format_exc()))

    def _set_timer(self, slot: _Slot[S], *, not_before_ms: int = 0) -> None:
        if slot.timer is not None:
            slot.timer.cancel()
            slot.timer = None
        if slot.ledger is None or not slot.is_current:
            return
        deadlines = [
            each for each in (slot.shard.next_deadline_ms(), slot.ledger.next_deadline_ms()) if each is not None
        ]
        if deadlines:
            wait_ms = max(min(deadlines) - monotonic_ms(), not_before_ms, 0)
            slot.timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._timer_due, slot)

    def _timer_due(self, slot: _Slot[S]) -> None:
        slot.timer = None
        if slot.ledger is None or not slot.is_current:
            return
        self._settle(slot)
        deadline_ms = slot.shard.next_deadline_ms()
        if deadline_ms is None or deadline_ms > monotonic_ms():
            return
        if self._readiness(slot, Tick()) is ErrorCode.none:
            self._handle(slot, Tick())
        else:
            self._set_timer(slot, not_before_ms=BLOCKED_TICK_MS)

    # -- leadership --------------------------------------------------------------------------------------------------

    def image_changed(self) -> None:
        """It is called after the partitions took the new image. Loads partitions that this broker leads now, and drops
        those that it no longer leads."""
        for slot in list(self._slots.values()):
            if not slot.is_failed and not slot.is_current:
                self._drop(slot, ErrorCode.not_coordinator)
        state = self._image().topics.get(self.topic.name)
        for index in range(0 if state is None else len(state.partitions)):
            hosted = self._partitions.get(self.topic.name, index)
            if hosted is None or not hosted.replica.is_leader:
                continue
            slot_now = self._slots.get(index)
            if slot_now is not None and slot_now.hosted is hosted:
                if slot_now.leader_epoch == hosted.replica.leader_epoch:
                    continue
                self._drop(slot_now, ErrorCode.not_coordinator)
            self._begin(index, hosted)

    def _begin(self, index: int, hosted: HostedPartition) -> None:
        slot = _Slot(
            index=index, hosted=hosted, leader_epoch=hosted.replica.leader_epoch, shard=self._make_shard(index)
        )
        self._slots[index] = slot
        if hosted.log.log_end_offset == hosted.log.log_start_offset:
            # there is nothing to load: this is the common case of a new topic
            self._serve(slot, hosted.log.log_end_offset)
        else:
            self._spawn(self._load(slot))

    async def _load(self, slot: _Slot[S]) -> None:
        log, begin_ms = slot.hosted.log, monotonic_ms()
        turn_ms = begin_ms
        offset, unread = log.log_start_offset, 0

        def left_out(at: int, error: Exception) -> None:
            nonlocal unread
            unread += 1
            if unread <= UNREAD_TOLD_MAX:
                facts = {"topic": self.topic.name, "partition": slot.index, "offset": at}
                cause = f"{type(error).__name__}: {error}"
                self._logger.error("coordinator_record_left_out", **facts, cause=repr(cause))

        try:
            # The end offset is read again each time, because markers of transactions may be appended meanwhile.
            while offset < log.log_end_offset and slot.is_current:
                offset = max(offset, log.log_start_offset)  # DeleteRecords may have moved it meanwhile
                data = log.read(offset, self._load_buffer_bytes, log.log_end_offset)
                if not data:
                    break
                for batch in iter_batches(data):
                    offset = batch.header.next_offset
                    for _ in replay(batch, slot.shard.replay, left_out):
                        if monotonic_ms() - turn_ms >= LOAD_TURN_MS:
                            await asyncio.sleep(0)  # lets other work of this broker run
                            turn_ms = monotonic_ms()
        # The log has only whole batches. What is in them is another matter: see `replay`.
        except (*STORAGE_ERRORS, CorruptBatchError) as error:
            self._partitions.storage_failed(slot.hosted, error)
            self._drop(slot, ErrorCode.not_coordinator)
            return
        except Exception:
            self._fail(slot, "load_failed", traceback.format_exc())
            return
        if slot.is_current:
            loaded = {"topic": self.topic.name, "partition": slot.index, "end": offset}
            self._logger.info("coordinator_loaded", **loaded, left_out=unread, ms=monotonic_ms() - begin_ms)
            self._serve(slot, log.log_end_offset)

    def _serve(self, slot: _Slot[S], end_offset: int) -> None:
        slot.ledger = Ledger(loaded_end_offset=end_offset)

        def wake() -> None:  # the high watermark or the role has changed; `_settle` runs later, not inside the caller
            asyncio.get_running_loop().call_soon(self._settle, slot)

        slot.wake = wake
        slot.hosted.readers.consumers.add(wake)
        self._handle(slot, Loaded(leader_epoch=slot.leader_epoch))
        for event in self._first_events():
            if slot.ledger is not None:
                self._handle(slot, event)

    def _drop(self, slot: _Slot[S], error: ErrorCode) -> None:
        if self._slots.get(slot.index) is slot:
            del self._slots[slot.index]
        self._silence(slot, error)

    def _silence(self, slot: _Slot[S], error: ErrorCode) -> None:
        """Answers every request that still waits. The next leader carries out the remaining effects."""
        slot.is_failed = True
        slot.ledger = None
        if slot.timer is not None:
            slot.timer.cancel()
            slot.timer = None
        if slot.wake is not None:
            slot.hosted.readers.consumers.discard(slot.wake)
        requests, slot.requests = slot.requests, {}
        for waiting in requests.values():
            waiting.refused(error)

    def _fail(self, slot: _Slot[S], event: str, cause: str) -> None:
        self._logger.error(f"coordinator_{event}", topic=self.topic.name, partition=slot.index, cause=repr(cause))
        self._silence(slot, ErrorCode.coordinator_not_available)
        asyncio.get_running_loop().call_later(RELOAD_MS / 1000, self._load_again, slot)

    def _load_again(self, slot: _Slot[S]) -> None:
        if self._slots.get(slot.index) is slot:
            del self._slots[slot.index]
            if slot.hosted.replica.is_leader and self._partitions.get(self.topic.name, slot.index) is slot.hosted:
                self._begin(slot.index, slot.hosted)

    def close(self) -> None:
        for slot in list(self._slots.values()):
            self._drop(slot, ErrorCode.not_coordinator)
