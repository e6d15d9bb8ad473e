"""Fetch (key 1), versions 4-17: consumers up to the high watermark, replicas up to the log end; long poll.

On the controller listener: a voter's Fetch of `__cluster_metadata`, version 17, handed to the quorum core.
With isolation_level 1 consumers read up to the last stable offset, and are told which transactions aborted (KIP-98).
A request of an incremental session (KIP-227, broker/node/fetch_sessions.py) looks only at what is pending in it: what
it names, and what was noted since. Not done: preferred read replicas.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from broker.log.errors import STORAGE_ERRORS, OffsetOutOfRangeError
from broker.log.transaction_index import AbortedTransaction
from broker.node.clock import monotonic_ms
from broker.node.connection import Request
from broker.node.control import AnyRequest
from broker.node.fetch_sessions import (
    FINAL_EPOCH,
    FULL_EPOCH,
    NO_SESSION,
    AskedPartition,
    CachedPartition,
    FetchSession,
    Reader,
)
from broker.node.partitions import HostedPartition
from broker.replication import EpochEnd, FollowerFetched, FollowerIdles, diverging_epoch
from broker.wire import hot_fetch
from broker.wire.apis import ApiKey, Listener
from broker.wire.errors import ErrorCode
from broker.wire.hot_fetch import PartitionData
from broker.wire.messages import Message, response, to_ms
from broker.wire.records import last_batch_next_offset

if TYPE_CHECKING:
    from broker.node.broker import Broker

TOPIC_IDS_SINCE_VERSION = 13
REPLICA_STATE_SINCE_VERSION = 15
READ_COMMITTED = 1  # isolation_level
CURRENT_LEADER_SINCE_VERSION = 16  # KIP-951; the field is older, for followers of the quorum
_NONE = ErrorCode.none  # looked up once: an enum's member costs 70 ns each time
_LEADER_HINT_ERRORS = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})


@dataclass(slots=True, kw_only=True)
class _Read:
    """The answer for one partition. `is_final`: answer at once, waiting cannot improve it."""

    asked: AskedPartition
    error: ErrorCode = _NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    aborted: list[AbortedTransaction] | None = None  # None: read_uncommitted
    log_start_offset: int = -1
    records: bytes = b""
    diverging: EpochEnd | None = None
    has_new_start: bool = False  # for a replica: records were deleted at the beginning
    is_at_end: bool = False  # nothing more is there for it until something comes
    hosted: HostedPartition | None = None
    cached: CachedPartition | None = None

    @property
    def is_final(self) -> bool:
        return self.error is not _NONE or self.diverging is not None or self.has_new_start

    @property
    def is_plain(self) -> bool:
        """Nothing that only the general encoder can tell."""
        return self.diverging is None and not self.aborted and self.error not in _LEADER_HINT_ERRORS


def _plain(read: _Read) -> PartitionData:
    return PartitionData(
        read.asked.index,
        read.error,
        read.high_watermark,
        read.last_stable_offset,
        read.log_start_offset,
        read.records,
        read.aborted is not None,
    )


def handle(broker: Broker, request: AnyRequest) -> None:
    if request.listener is Listener.CONTROLLER:
        broker.metadata.quorum_request(request.message, request.respond)
        return
    fetch = _Fetch(broker, request)
    error = fetch.join_session()
    if error is not _NONE:
        request.respond(response(ApiKey.FETCH, request.version, error_code=error, responses=[]))
        return
    fetch.start()


class _Fetch:
    """One request, answered at once or when enough has come, at the latest after max_wait."""

    __slots__ = (
        "_asked",
        "_broker",
        "_is_due",
        "_is_incremental",
        "_is_read_committed",
        "_replica_epoch",
        "_replica_id",
        "_request",
        "_session",
        "_timer",
        "_watched",
    )

    def __init__(self, broker: Broker, request: AnyRequest) -> None:
        self._broker, self._request = broker, request
        message = request.message
        is_new = request.version >= REPLICA_STATE_SINCE_VERSION
        self._replica_id: int = message.replica_state.replica_id if is_new else message.replica_id
        self._replica_epoch: int = message.replica_state.replica_epoch if is_new else -1
        self._is_read_committed: bool = message.isolation_level == READ_COMMITTED and self._replica_id < 0
        self._asked = [each for topic in message.topics for each in self._ask(topic)]
        self._session: FetchSession | None = None
        self._is_incremental = False
        self._timer: asyncio.TimerHandle | None = None
        self._watched: list[HostedPartition] = []
        self._is_due = False

    @property
    def _is_replica(self) -> bool:
        return self._replica_id >= 0

    def join_session(self) -> ErrorCode:
        """Begin, continue or end a session, as the request says; an incremental one stands for all its partitions."""
        message, sessions = self._request.message, self._broker.fetch_sessions
        session_id, epoch = getattr(message, "session_id", NO_SESSION), getattr(message, "session_epoch", FINAL_EPOCH)
        uses_ids = self._request.version >= TOPIC_IDS_SINCE_VERSION
        reader = Reader(self._replica_id, self._replica_epoch, self._is_read_committed)
        if epoch in (FULL_EPOCH, FINAL_EPOCH):
            if session_id != NO_SESSION:
                sessions.close(session_id)
            if epoch == FULL_EPOCH:
                self._session = sessions.open(self._asked, reader=reader, uses_ids=uses_ids, now_ms=monotonic_ms())
            return _NONE
        self._session, error = sessions.resume(session_id, epoch, uses_ids=uses_ids, now_ms=monotonic_ms())
        if self._session is None:
            return error
        self._is_incremental = True
        forgotten = [
            (topic.topic_id if uses_ids else topic.topic, index)
            for topic in message.forgotten_topics_data
            for index in topic.partitions
        ]
        for cached in self._session.update(self._asked, forgotten):
            hosted = self._hosted(self._resolved(cached.asked))
            if self._is_replica and hosted is not None:
                self._broker.partitions.perform(hosted, FollowerIdles(replica_id=self._replica_id, fetches=None))
        self._session.read_by(reader)
        if not self._session.partitions:
            sessions.close(session_id)
            self._session, self._asked = None, []
        return _NONE

    def _looked_at(self) -> list[tuple[CachedPartition | None, AskedPartition]]:
        """What the answer is made of; more of a session may become pending while the request waits."""
        if self._session is None:
            return [(None, asked) for asked in self._asked]
        return [(cached, self._resolved(cached.asked)) for cached in self._session.pending]

    def _hosted(self, asked: AskedPartition) -> HostedPartition | None:
        return None if asked.topic is None else self._broker.partitions.get(asked.topic, asked.index)

    def _resolved(self, asked: AskedPartition) -> AskedPartition:
        """With the name that its topic id has by now."""
        if asked.topic_id is None:
            return asked
        name = self._broker.metadata.image.topic_names.get(asked.topic_id)
        return asked if name == asked.topic else asked._replace(topic=name)

    def start(self) -> None:
        if self._is_replica:
            self._note_follower()
        reads = self._read_all()
        wait_ms = to_ms(self._request.message.max_wait)
        if wait_ms <= 0 or self._is_enough(reads):
            self._respond(reads)
            return
        if self._session is not None:
            self._session.wakes.add(self._wake)
        else:
            for read in reads:
                if read.hosted is not None:
                    self._watched.append(read.hosted)
                    readers = read.hosted.readers
                    (readers.followers if self._is_replica else readers.consumers).add(self._wake)
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._timed_out)

    # -- waiting -----------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Something came; look once at the end of this wake-up, whatever else comes in it."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._look_again)

    def _look_again(self) -> None:
        self._is_due = False
        if self._timer is None:
            return
        if not self._request.is_open:
            self._stop_waiting()
            return
        reads = self._read_all()
        if self._is_enough(reads):
            self._stop_waiting()
            self._respond(reads)

    def _timed_out(self) -> None:
        self._stop_waiting()
        if self._request.is_open:
            self._respond(self._read_all())

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._session is not None:
            self._session.wakes.discard(self._wake)
        for hosted in self._watched:
            (hosted.readers.followers if self._is_replica else hosted.readers.consumers).discard(self._wake)
        self._watched = []

    def _is_enough(self, reads: list[_Read]) -> bool:
        size_bytes = 0
        for read in reads:
            if read.is_final:
                return True
            size_bytes += len(read.records)
        min_bytes: int = self._request.message.min_bytes
        is_empty = self._session is None and not self._asked
        return size_bytes >= min_bytes or is_empty

    # -- reading -----------------------------------------------------------------------------------------------------

    def _ask(self, topic: Message) -> list[AskedPartition]:
        by_id = self._request.version >= TOPIC_IDS_SINCE_VERSION
        name = self._broker.metadata.image.topic_names.get(topic.topic_id) if by_id else topic.topic
        topic_id = topic.topic_id if by_id else None
        return [
            AskedPartition(
                name,
                topic_id,
                asked.partition,
                asked.fetch_offset,
                getattr(asked, "current_leader_epoch", -1),
                getattr(asked, "last_fetched_epoch", -1),
                asked.partition_max_bytes,
                getattr(asked, "log_start_offset", -1),
            )
            for asked in topic.partitions
        ]

    def _note_follower(self) -> None:
        """A follower that asks from an offset holds everything below it, if its log does not diverge from ours."""
        partitions, replica_id = self._broker.partitions, self._replica_id
        for cached, asked in self._looked_at():
            hosted = self._hosted(asked)
            if hosted is None:
                continue
            if (
                self._check(asked, hosted) is not _NONE
                or asked.offset > hosted.log.log_end_offset
                or self._diverging(asked, hosted) is not None
            ):
                partitions.perform(hosted, FollowerIdles(replica_id=replica_id, fetches=None))
                continue
            event = FollowerFetched(replica_id=replica_id, fetch_offset=asked.offset, broker_epoch=self._replica_epoch)
            hosted.follower_log_starts[replica_id] = asked.log_start_offset
            hosted.readers.fetched_by(replica_id, cached)
            partitions.perform(hosted, event)
        if self._session is not None:  # after those that it names: until now their times were those of the last fetch
            self._session.fetches.last_ms = monotonic_ms()

    def _read_all(self) -> list[_Read]:
        message = self._request.message
        left_bytes = min(getattr(message, "max_bytes", 2**31 - 1), self._broker.config.fetch_max_bytes)
        if self._broker.quotas.is_active and not self._is_replica:
            quota_bytes = self._broker.quotas.fetch_bytes_max(self._request.client_id)
            left_bytes = left_bytes if quota_bytes is None else min(left_bytes, quota_bytes)
        reads = []
        has_records = False
        for cached, asked in self._looked_at():
            read = self._read(asked, left_bytes, is_first=not has_records)
            if cached is not None:
                read.cached = cached
                if read.hosted is not None:
                    cached.watch(read.hosted.readers)
            has_records = has_records or bool(read.records)
            left_bytes -= len(read.records)
            reads.append(read)
        return reads

    def _check(self, asked: AskedPartition, hosted: HostedPartition) -> ErrorCode:
        if asked.topic_id is not None and asked.topic_id != hosted.topic_id:
            return ErrorCode.inconsistent_topic_id
        error = hosted.replica.check_leader_epoch(asked.current_leader_epoch)
        if error is not _NONE:
            return error
        if not hosted.replica.is_leader:
            return ErrorCode.not_leader_or_follower
        if self._is_replica and self._replica_id not in hosted.replica.followers:
            # Not a replica in our image. If it knows our epoch, one of us is behind.
            is_of_epoch = asked.current_leader_epoch >= 0
            return ErrorCode.unknown_leader_epoch if is_of_epoch else ErrorCode.not_leader_or_follower
        return _NONE

    def _diverging(self, asked: AskedPartition, hosted: HostedPartition) -> EpochEnd | None:
        log = hosted.log
        if asked.last_fetched_epoch == log.latest_epoch and asked.offset <= log.log_end_offset:
            return None  # what the rules say of a log that ends in our epoch, and not after us

        def lookup(epoch: int) -> EpochEnd | None:
            found, end_offset = hosted.log.end_offset_for_epoch(epoch)
            return None if found < 0 else EpochEnd(epoch=found, end_offset=end_offset)

        return diverging_epoch(
            lookup=lookup,
            last_fetched_epoch=asked.last_fetched_epoch,
            fetch_offset=asked.offset,
            log_start_offset=hosted.log.log_start_offset,
        )

    def _read(self, asked: AskedPartition, left_bytes: int, *, is_first: bool) -> _Read:
        hosted = self._hosted(asked)
        if hosted is None:
            return _Read(asked=asked, error=self._absent(asked), aborted=[])
        error = self._check(asked, hosted)
        if error is not _NONE:
            return _Read(asked=asked, error=error, hosted=hosted)
        log, high_watermark = hosted.log, hosted.replica.high_watermark
        stable_offset = log.last_stable_offset(high_watermark)
        read = _Read(
            asked=asked,
            high_watermark=high_watermark,
            last_stable_offset=stable_offset,
            log_start_offset=log.log_start_offset,
            hosted=hosted,
        )
        if self._is_read_committed:
            read.aborted = []
        if self._is_replica and asked.log_start_offset < min(log.log_start_offset, high_watermark):
            read.has_new_start = True
        if asked.last_fetched_epoch >= 0:
            read.diverging = self._diverging(asked, hosted)
            if read.diverging is not None:
                return read
        limit = log.log_end_offset if self._is_replica else high_watermark
        if self._is_read_committed:
            limit = stable_offset
        if limit <= asked.offset <= log.log_end_offset:
            read.is_at_end = True
            return read
        if left_bytes <= 0 and not is_first and log.log_start_offset <= asked.offset <= log.log_end_offset:
            return read
        size_bytes_max = max(0, min(asked.max_bytes, left_bytes))
        try:
            read.records = log.read(asked.offset, size_bytes_max, limit, minimum_one_batch=is_first)
        except OffsetOutOfRangeError:
            if not self._is_replica:  # ours ask where the log begins by the same answer
                return _Read(asked=asked, error=ErrorCode.offset_out_of_range, hosted=hosted)
            read.error = ErrorCode.offset_out_of_range
        except STORAGE_ERRORS as failure:  # it costs this partition; the others of the request are read
            outcome = self._broker.partitions.storage_failed(hosted, failure)
            return _Read(asked=asked, error=outcome.error_code)
        if self._is_read_committed and read.records:
            read.aborted = log.aborted_transactions(asked.offset, last_batch_next_offset(read.records))
        return read

    def _absent(self, asked: AskedPartition) -> ErrorCode:
        if asked.topic is None:
            return ErrorCode.unknown_topic_id
        return self._broker.absent(asked.topic, asked.index)

    # -- answering ---------------------------------------------------------------------------------------------------

    def _respond(self, reads: list[_Read]) -> None:
        request = self._request
        by_id = request.version >= TOPIC_IDS_SINCE_VERSION
        topics: dict[str | UUID | None, list[_Read]] = {}
        session_id = NO_SESSION if self._session is None else self._session.session_id
        if self._session is not None:
            reads = self._to_tell(self._session, reads)
        for read in reads:
            topics.setdefault(read.asked.topic_id if by_id else read.asked.topic, []).append(read)
        is_plain = request.version >= hot_fetch.FIRST_VERSION and all(read.is_plain for read in reads)
        if is_plain and isinstance(request, Request) and request.charge is None:
            answers = [(topic, [_plain(read) for read in found]) for topic, found in topics.items()]
            correlation_id = request.header.correlation_id
            request.respond_frame(hot_fetch.encode_fetch_response(request.version, correlation_id, session_id, answers))
            return
        key = "topic_id" if by_id else "topic"
        responses = [
            {key: topic, "partitions": [self._partition(read) for read in found]} for topic, found in topics.items()
        ]
        request.respond(response(ApiKey.FETCH, request.version, session_id=session_id, responses=responses))

    def _to_tell(self, session: FetchSession, reads: list[_Read]) -> list[_Read]:
        """The first answer of a session tells of all partitions, a later one of those with news."""
        told = []
        for read in reads:
            cached, hosted = read.cached, read.hosted
            assert cached is not None, "what a session reads is in it"
            has_news = read.is_final
            must_tell = cached.must_tell(
                high_watermark=read.high_watermark,
                log_start_offset=read.log_start_offset,
                has_records=bool(read.records),
                has_news=has_news,
            )
            if must_tell:
                told.append(read)
            if hosted is None or session.is_closed:
                continue  # an error, which stays pending; or the replica has another session by now
            if read.records:
                session.served(cached)
            elif read.is_at_end and not has_news and self._may_idle(session, hosted):
                session.settle(cached)
        return told if self._is_incremental else reads

    def _may_idle(self, session: FetchSession, hosted: HostedPartition) -> bool:
        """Whether the next fetches need not look at this partition. A follower's count for it all the same."""
        if not self._is_replica:
            return True
        if not hosted.replica.has_everything(self._replica_id):
            return False
        self._broker.partitions.perform(hosted, FollowerIdles(replica_id=self._replica_id, fetches=session.fetches))
        return True

    def _partition(self, read: _Read) -> dict[str, object]:
        values: dict[str, object] = {
            "partition_index": read.asked.index,
            "error_code": read.error,
            "high_watermark": read.high_watermark,
            "last_stable_offset": read.last_stable_offset,
            "log_start_offset": read.log_start_offset,
            "aborted_transactions": None
            if read.aborted is None
            else [{"producer_id": each.producer_id, "first_offset": each.first_offset} for each in read.aborted],
            "records": read.records,
        }
        if read.diverging is not None:
            values["diverging_epoch"] = {"epoch": read.diverging.epoch, "end_offset": read.diverging.end_offset}
        is_hint_due = read.error in _LEADER_HINT_ERRORS and self._request.version >= CURRENT_LEADER_SINCE_VERSION
        if is_hint_due and read.asked.topic is not None:
            state = self._broker.metadata.image.partition(read.asked.topic, read.asked.index)
            if state is not None:
                values["current_leader"] = {"leader_id": state.leader, "leader_epoch": state.leader_epoch}
        return values
