"""Fetch (key 1), versions 4-18: consumers read up to the high watermark, replicas up to the log end; with long polling.

On the controller listener it is a voter's Fetch of `__cluster_metadata` in version 18, which goes to the quorum core.
There the high watermark of the sender counts (KIP-1166). Other listeners do not look at it, as in Apache Kafka.
With isolation_level 1 consumers read up to the last stable offset, and the answer lists the aborted transactions
(KIP-98). A request of an incremental session (KIP-227, broker/node/replicas/fetch_sessions.py) looks only at the
pending partitions of the session: those in the request, and those that had news since the last one. Since version 11
consumers may also read from followers, up to the offset that these know to be committed. A leader may name a follower
in the consumer's rack (KIP-392, broker/node/handlers/read_replicas.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.node.handlers.fetch_answer import TOPIC_IDS_SINCE_VERSION, respond
from broker.node.handlers.fetch_reads import PartitionReads, Read
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.node.process.clock import monotonic_ms
from broker.node.replicas.fetch_sessions import (
    FINAL_EPOCH,
    FULL_EPOCH,
    NO_SESSION,
    AskedPartition,
    CachedPartition,
    FetchSession,
    Reader,
)
from broker.node.replicas.hosted import HostedPartition
from broker.replication import FollowerFetched, FollowerIdles
from broker.security.acls import Operation, ResourceType
from broker.security.authorizer import Access
from broker.wire.apis import ApiKey, Listener
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response, to_ms

if TYPE_CHECKING:
    from broker.wire.shapes import fetch as shapes

REPLICA_STATE_SINCE_VERSION = 15
RACKS_SINCE_VERSION = 11
READ_COMMITTED = 1  # isolation_level
_NONE = ErrorCode.none  # looked up once, because each access to a member of an enum costs 70 ns


def handle(services: Services, request: AnyRequest[shapes.FetchRequest]) -> None:
    if request.listener is Listener.CONTROLLER:
        services.metadata.quorum_request(request.message, request.respond)
        return
    fetch = _Fetch(services, request)
    error = fetch.join_session()
    if error is not _NONE:
        request.respond(response(ApiKey.FETCH, request.version, error_code=error, responses=[]))
        return
    fetch.start()


class _Fetch:
    """One request. It is answered at once or when there are enough bytes, at the latest after max_wait."""

    __slots__ = (
        "_asked",
        "_is_due",
        "_is_impostor",
        "_is_incremental",
        "_reader",
        "_reads",
        "_replica_epoch",
        "_replica_id",
        "_request",
        "_services",
        "_session",
        "_timer",
        "_watched",
    )

    def __init__(self, services: Services, request: AnyRequest[shapes.FetchRequest]) -> None:
        self._services, self._request = services, request
        message = request.message
        is_new = request.version >= REPLICA_STATE_SINCE_VERSION
        self._replica_id: int = message.replica_state.replica_id if is_new else message.replica_id
        self._replica_epoch: int = message.replica_state.replica_epoch if is_new else -1
        self._is_impostor = False  # the client says that it is a replica, but is not allowed to be one
        is_read_committed: bool = message.isolation_level == READ_COMMITTED and self._replica_id < 0
        self._reader = Reader(self._replica_id, self._replica_epoch, is_read_committed)
        self._reads = PartitionReads(
            services,
            self._reader,
            self._permission(request.access),
            may_follow=request.version >= RACKS_SINCE_VERSION and self._replica_id < 0,
            rack=field_or(message, "rack_id", ""),
            listener=request.listener_name,
        )
        self._asked = [each for topic in message.topics for each in self._ask(topic)]
        self._session: FetchSession | None = None
        self._is_incremental = False
        self._timer: asyncio.TimerHandle | None = None
        self._watched: list[HostedPartition] = []
        self._is_due = False

    def _permission(self, access: Access | None) -> Callable[[str | None], bool] | None:
        """Tells which topics this reader may read. None means all. A replica must be allowed CLUSTER_ACTION, otherwise
        it may read nothing."""
        if access is None:
            return None
        if not self._is_replica:
            return lambda topic: topic is None or access.may(Operation.READ, ResourceType.TOPIC, topic)
        if access.may_on_cluster(Operation.CLUSTER_ACTION):
            return None
        self._is_impostor = True
        return lambda topic: False

    @property
    def _is_replica(self) -> bool:
        return self._replica_id >= 0

    def join_session(self) -> ErrorCode:
        """Begins, continues or ends a session, as the request says. An incremental request covers all partitions of its
        session."""
        message, sessions = self._request.message, self._services.fetch_sessions
        session_id, epoch = field_or(message, "session_id", NO_SESSION), field_or(message, "session_epoch", FINAL_EPOCH)
        uses_ids = self._request.version >= TOPIC_IDS_SINCE_VERSION
        if epoch in (FULL_EPOCH, FINAL_EPOCH):
            if session_id != NO_SESSION:
                sessions.close(session_id)
            if epoch == FULL_EPOCH:
                self._session = sessions.open(
                    self._asked, reader=self._reader, uses_ids=uses_ids, now_ms=monotonic_ms()
                )
            return _NONE
        self._session, error = sessions.resume(session_id, epoch, uses_ids=uses_ids, now_ms=monotonic_ms())
        if self._session is None:
            return error
        self._is_incremental = True
        # The zero id belongs to no topic and is None here. The key of such a partition has an empty name instead.
        forgotten = [
            ((topic.topic_id or "") if uses_ids else topic.topic, index)
            for topic in message.forgotten_topics_data
            for index in topic.partitions
        ]
        for cached in self._session.update(self._asked, forgotten):
            hosted = self._reads.hosted(self._resolved(cached.asked))
            if self._is_replica and hosted is not None and not self._is_impostor:
                self._services.cores.perform(hosted, FollowerIdles(replica_id=self._replica_id, fetches=None))
        self._session.read_by(self._reader)
        if not self._session.partitions:
            sessions.close(session_id)
            self._session, self._asked = None, []
        return _NONE

    def _looked_at(self) -> list[tuple[CachedPartition | None, AskedPartition]]:
        """The partitions to read for the answer. Further partitions of a session may become pending while the request
        waits."""
        if self._session is None:
            return [(None, asked) for asked in self._asked]
        return [(cached, self._resolved(cached.asked)) for cached in self._session.pending]

    def _resolved(self, asked: AskedPartition) -> AskedPartition:
        """The partition with the present name of its topic id."""
        if asked.topic_id is None:
            return asked
        name = self._services.metadata.image.topic_names.get(asked.topic_id)
        return asked if name == asked.topic else asked._replace(topic=name)

    def start(self) -> None:
        if self._is_replica and not self._is_impostor:
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
        """There is news. The request looks once, at the end of this wake-up, even if more news follows before."""
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

    def _is_enough(self, reads: list[Read]) -> bool:
        size_bytes = 0
        for read in reads:
            if read.is_final:
                return True
            size_bytes += len(read.records)
        min_bytes: int = self._request.message.min_bytes
        is_empty = self._session is None and not self._asked
        return size_bytes >= min_bytes or is_empty

    # -- reading -----------------------------------------------------------------------------------------------------

    def _ask(self, topic: shapes.FetchTopic) -> list[AskedPartition]:
        by_id = self._request.version >= TOPIC_IDS_SINCE_VERSION
        name = self._services.metadata.image.topic_names.get(topic.topic_id) if by_id else topic.topic
        topic_id = topic.topic_id if by_id else None
        return [
            AskedPartition(
                name,
                topic_id,
                asked.partition,
                asked.fetch_offset,
                field_or(asked, "current_leader_epoch", -1),
                field_or(asked, "last_fetched_epoch", -1),
                asked.partition_max_bytes,
                field_or(asked, "log_start_offset", -1),
            )
            for asked in topic.partitions
        ]

    def _note_follower(self) -> None:
        """If a follower fetches from an offset and its log does not diverge from the leader's, it has all records
        before that offset."""
        cores, replica_id = self._services.cores, self._replica_id
        for cached, asked in self._looked_at():
            hosted = self._reads.hosted(asked)
            if hosted is None:
                continue
            if (
                self._reads.check(asked, hosted) is not _NONE
                or asked.offset > hosted.log.log_end_offset
                or self._reads.diverging(asked, hosted) is not None
            ):
                cores.perform(hosted, FollowerIdles(replica_id=replica_id, fetches=None))
                continue
            event = FollowerFetched(replica_id=replica_id, fetch_offset=asked.offset, broker_epoch=self._replica_epoch)
            hosted.follower_log_starts[replica_id] = asked.log_start_offset
            hosted.readers.fetched_by(replica_id, cached)
            cores.perform(hosted, event)
        # set after the loop: in the loop, the partitions that the request names still need the time of the last fetch
        if self._session is not None:
            self._session.fetches.last_ms = monotonic_ms()

    def _read_all(self) -> list[Read]:
        message = self._request.message
        left_bytes = min(message.max_bytes, self._services.config.network.fetch_max_bytes)
        reads = []
        has_records = False
        for cached, asked in self._looked_at():
            read = self._reads.read(asked, left_bytes, is_first=not has_records)
            if cached is not None:
                read.cached = cached
                if read.hosted is not None:
                    cached.watch(read.hosted.readers)
            has_records = has_records or bool(read.records)
            left_bytes -= len(read.records)
            reads.append(read)
        return reads

    # -- answering ---------------------------------------------------------------------------------------------------

    def _respond(self, reads: list[Read]) -> None:
        session = self._session
        if session is None:
            respond(self._services, self._request, NO_SESSION, reads)
        else:
            respond(self._services, self._request, session.session_id, self._to_tell(session, reads))

    def _to_tell(self, session: FetchSession, reads: list[Read]) -> list[Read]:
        """The partitions in the answer. The first answer of a session contains all partitions, a later one only those
        with news."""
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
                continue  # an error, which stays pending, or the replica has a newer session
            if read.records:
                session.served(cached)
            elif read.is_at_end and not has_news and self._may_idle(session, hosted):
                session.settle(cached)
        return told if self._is_incremental else reads

    def _may_idle(self, session: FetchSession, hosted: HostedPartition) -> bool:
        """Whether the next fetches may skip this partition. If the reader is a follower, they still count as fetches of
        this partition."""
        if not self._is_replica:
            return True
        if not hosted.replica.has_everything(self._replica_id):
            return False
        self._services.cores.perform(hosted, FollowerIdles(replica_id=self._replica_id, fetches=session.fetches))
        return True
