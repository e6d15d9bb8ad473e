"""The share consumer's decisions: what to ask of which broker, and what an answer means. holdings.py has the records.

- At most one request per broker is under way. Acknowledgements go with the next ShareFetch, or alone if nothing is to
  be read.
- If a session is lost, the records that still wait for the application are dropped, because the broker offers them
  again. Acknowledgements of its other records fail. If a request with acknowledgements was sent and not answered,
  nobody knows whether they count.

An acknowledgement that failed is not repeated. Shown by tests/broker_client/test_client_share_fetcher.py.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Mapping
from uuid import UUID

from broker.client.core.backoff import Backoff
from broker.client.core.batch import TopicPartition
from broker.client.core.errors import IncompleteAnswerError, KafkaError
from broker.client.core.metadata import NO_LEADER, MetadataCache
from broker.client.core.shares.config import ShareConsumerConfig
from broker.client.core.shares.holdings import Holdings, Lot, session_is_over
from broker.client.core.shares.session import ShareSession
from broker.client.core.shares.unpacking import is_too_much, unpack
from broker.client.core.shares.values import (
    FINAL_EPOCH,
    FIRST_EPOCH,
    AcknowledgeType,
    Outcome,
    Place,
    ShareAnswer,
    SharePart,
    ShareRecord,
    ShareRequest,
)
from broker.wire.errors import ErrorCode, error_code

_SESSION_ERRORS = frozenset({ErrorCode.share_session_not_found, ErrorCode.invalid_share_session_epoch})
# An acknowledgement with one of these errors certainly does not count. With another error, a write to the share
# coordinator has failed, and it may have been written all the same.
_DEFINITE_ERRORS = frozenset(
    {
        ErrorCode.invalid_record_state,
        ErrorCode.invalid_request,
        ErrorCode.topic_authorization_failed,
        ErrorCode.unknown_topic_id,
    }
)


class ShareFetcher:
    def __init__(self, config: ShareConsumerConfig, metadata: MetadataCache, rng: random.Random) -> None:
        self._config, self._metadata, self._random = config, metadata, rng
        self._wanted: frozenset[TopicPartition] = frozenset()
        self._sessions: dict[int, ShareSession] = {}
        self._holdings = Holdings()
        self._node_backoffs: dict[int, Backoff] = {}
        self._place_backoffs: dict[Place, Backoff] = {}
        self._error: KafkaError | None = None

    # -- calls of the consumer ------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replaces the assignment. Records of other partitions that the application does not have yet are released."""
        self._wanted = frozenset(partitions)
        self._holdings.release_others(self._wanted.__contains__)

    def assignment(self) -> frozenset[TopicPartition]:
        return self._wanted

    def take(self, limit: int, now_ms: int) -> list[ShareRecord]:
        """Returns up to `limit` records that the application must acknowledge, renewed ones first. Acknowledgements
        that were made before become final. If an error waits, raises it once."""
        self._holdings.flush()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return self._holdings.take(limit, now_ms)

    @property
    def has_waiting(self) -> bool:
        """Whether records wait for the application."""
        return self._holdings.has_waiting

    @property
    def unacknowledged(self) -> int:
        """How many records the application got and has not acknowledged."""
        return self._holdings.unacknowledged

    def acknowledge(self, partition: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        """Until `flush` or `take`, a later acknowledgement of the same record replaces this one."""
        self._holdings.acknowledge(partition, offset, kind)

    def acknowledge_all(self, kind: AcknowledgeType) -> None:
        """Acknowledges what the application got and has not acknowledged."""
        self._holdings.acknowledge_all(kind)

    def flush(self) -> None:
        """Acknowledgements become final. They go with the next requests."""
        self._holdings.flush()

    @property
    def has_unconfirmed(self) -> bool:
        """Whether acknowledgements wait for a request or for an answer."""
        return any(
            session.outbox or (session.in_flight is not None and session.in_flight.acks)
            for session in self._sessions.values()
        )

    def take_outcomes(self) -> list[Outcome]:
        return self._holdings.take_outcomes()

    # -- calls of the shell ---------------------------------------------------------------------------------------

    def plan(self, now_ms: int, *, wants_records: bool) -> dict[int, ShareRequest]:
        """The requests to send now, by broker. Brokers with a request under way are left out. If records wait for the
        application, nothing is read."""
        reads = wants_records and not self._holdings.has_waiting
        by_node = self._by_node()
        plans: dict[int, ShareRequest] = {}
        for node in [*by_node, *(each for each in self._sessions if each not in by_node)]:
            backoff = self._node_backoffs.get(node)
            if backoff is not None and now_ms < backoff.not_before_ms:
                continue
            request = self._request(node, by_node.get(node, ()), now_ms, reads=reads)
            if request is not None:
                plans[node] = request
        return plans

    def _by_node(self) -> dict[int, list[Place]]:
        """The wanted partitions by leader."""
        found: dict[int, list[Place]] = {}
        for partition in sorted(self._wanted):
            topic = self._metadata.topic(partition.topic)
            leader = self._metadata.leader(partition)
            if topic is None or not topic.topic_id or leader == NO_LEADER:
                self._metadata.request_update()
                continue
            topic_id = UUID(topic.topic_id)
            self._holdings.names[topic_id] = partition.topic
            found.setdefault(leader, []).append((topic_id, partition.partition))
        return found

    def _request(self, node: int, wanted: Iterable[Place], now_ms: int, *, reads: bool) -> ShareRequest | None:
        places = frozenset(place for place in wanted if not self._is_backing_off(place, now_ms))
        session = self._sessions.get(node)
        if session is None:
            return ShareRequest(epoch=FIRST_EPOCH, is_fetch=True, added=places) if places and reads else None
        if session.in_flight is not None:
            return None
        acks = session.waiting()
        request = ShareRequest(epoch=session.epoch, is_fetch=False, acks=acks)
        if reads and places and not request.is_renewing:
            added, forgotten = places - session.places, session.places - places
            return ShareRequest(epoch=session.epoch, is_fetch=True, added=added, forgotten=forgotten, acks=acks)
        if acks:
            return request
        if not wanted and session.held == 0:  # nothing is read there any more
            return ShareRequest(epoch=FINAL_EPOCH, is_fetch=False)
        return None

    def _is_backing_off(self, place: Place, now_ms: int) -> bool:
        backoff = self._place_backoffs.get(place)
        return backoff is not None and now_ms < backoff.not_before_ms

    def plan_close(self) -> dict[int, ShareRequest]:
        """The last request of each session, with the acknowledgements that wait. The broker then releases everything
        that the member still holds. A broker that still owes an answer is left out."""
        return {
            node: ShareRequest(epoch=FINAL_EPOCH, is_fetch=False, acks=session.waiting())
            for node, session in self._sessions.items()
            if session.in_flight is None
        }

    @property
    def open_sessions(self) -> list[int]:
        """The brokers with a session."""
        return list(self._sessions)

    def on_sent(self, node: int, request: ShareRequest) -> None:
        self._sessions.setdefault(node, ShareSession(node=node)).sent(request)

    def on_failed(self, node: int, error: KafkaError, now_ms: int) -> None:
        """The connection is lost, or the request could not be sent. `error.definite` says whether the broker certainly
        did not get the request."""
        self._metadata.request_update()
        if node in self._sessions:
            self._back_off_node(node, now_ms)
            self._lose(node, error)

    def on_answer(self, node: int, answer: ShareAnswer, now_ms: int) -> None:
        session = self._sessions.get(node)
        if session is None or session.in_flight is None:
            return
        code = error_code(answer.error_code)
        if code is ErrorCode.none and is_too_much(list(answer.parts.values())):
            text = f"broker {node} claims more acquired records than there can be"
            self.on_failed(node, KafkaError(-1, text, definite=False, name="REMOTE_PROTOCOL"), now_ms)
            return
        if code is not ErrorCode.none:
            self._on_refused(node, code, now_ms)
            return
        request = session.answered()
        self._node_backoffs.pop(node, None)
        for place, types in request.acks.items():
            self._on_acknowledged(place, types, answer.parts.get(place))
        if request.epoch == FINAL_EPOCH:
            self._lose(node, session_is_over(node))
        elif request.is_fetch:
            for place, part in answer.parts.items():
                self._on_part(session, place, part, now_ms + answer.lock_timeout_ms, now_ms)

    def next_retry_ms(self, now_ms: int) -> int | None:
        """When the next backoff ends. None if no backoff is running."""
        backoffs = (*self._node_backoffs.values(), *self._place_backoffs.values())
        return min((each.not_before_ms for each in backoffs if each.not_before_ms > now_ms), default=None)

    # -- answers --------------------------------------------------------------------------------------------------

    def _on_refused(self, node: int, code: ErrorCode, now_ms: int) -> None:
        """The whole request was refused. The acknowledgements in it do not count. The next request begins a session."""
        self._back_off_node(node, now_ms)
        error = KafkaError(code, f"share session with broker {node}")
        if code not in _SESSION_ERRORS and not code.retriable:
            self._error = self._error or error
        self._lose(node, error)

    def _on_acknowledged(self, place: Place, types: Mapping[int, AcknowledgeType], part: SharePart | None) -> None:
        code = ErrorCode.none if part is None else error_code(part.acknowledge_error)
        if part is None:
            self._holdings.failed({place: types}, IncompleteAnswerError())
        elif code is ErrorCode.none:
            self._holdings.confirmed(place, types)
        else:
            self._metadata.request_update()
            topic, index = self._holdings.partition(place)
            text = f"acknowledgement of {topic}-{index}"
            self._holdings.failed({place: types}, KafkaError(code, text, definite=code in _DEFINITE_ERRORS))

    def _on_part(self, session: ShareSession, place: Place, part: SharePart, lock_end_ms: int, now_ms: int) -> None:
        code = error_code(part.error_code)
        partition = self._holdings.partition(place)
        if code is not ErrorCode.none:
            self._place_backoffs.setdefault(place, self._backoff()).failed(now_ms)
            self._metadata.request_update()
            if not code.retriable:
                text = f"{partition.topic}-{partition.partition}: fetch of a share group"
                self._error = self._error or KafkaError(code, text)
            return
        self._place_backoffs.pop(place, None)
        if not part.acquired:
            return
        found = unpack(partition, part, checks_crc=self._config.check_crcs)
        self._error = self._error or found.damage
        for offset, kind in found.others.items():
            session.put(place, offset, kind)
        if found.records:
            records = deque(found.records)
            lot = Lot(session=session, place=place, partition=partition, records=records, lock_end_ms=lock_end_ms)
            self._holdings.add(lot)
            self._holdings.release_others(self._wanted.__contains__)

    # -- ends -----------------------------------------------------------------------------------------------------

    def _lose(self, node: int, error: KafkaError) -> None:
        """The session is over. `error` is told for acknowledgements in flight. Those that were not sent do not count,
        because the broker has released the records."""
        session = self._sessions.pop(node)
        sent, waiting = session.end()
        self._holdings.failed(sent, error)
        self._holdings.failed(waiting, session_is_over(node))
        self._holdings.session_lost(session)

    def _back_off_node(self, node: int, now_ms: int) -> None:
        self._node_backoffs.setdefault(node, self._backoff()).failed(now_ms)

    def _backoff(self) -> Backoff:
        return Backoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms, self._random)

    def check_invariants(self) -> None:
        for node, session in self._sessions.items():
            assert session.node == node
            session.check_invariants()
        self._holdings.check_invariants(self._sessions.values())
