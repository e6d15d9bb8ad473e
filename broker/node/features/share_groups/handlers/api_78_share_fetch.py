"""ShareFetch (key 78), versions 1-2: records for a member of a share group, with acknowledgements of earlier ones.

The request belongs to a share session (delivery/sessions.py). Like a Fetch it waits: for records, for locks that
end, and for share partitions that are still loading. Record batches are sent whole; `acquired_records` says which
offsets the member has acquired. With `max_bytes` 0 the request reads nothing and does not wait. Version 2 can renew
locks (KIP-1222) and has a strict limit of records (KIP-1206).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

from broker.node.features.share_groups.delivery.sessions import FINAL_EPOCH, FIRST_EPOCH, ShareSession
from broker.node.features.share_groups.handlers.acks import (
    NO_LEADER,
    RENEW_SINCE_VERSION,
    Acknowledged,
    acknowledge,
    endpoints_of,
    leader_of,
    may_read,
)
from broker.node.features.share_groups.handlers.acks import refusal as refused
from broker.node.features.share_groups.handlers.reads import ShareRead, acquire, read
from broker.node.features.share_groups.live_share import LiveShare
from broker.node.features.share_groups.part import SharePart
from broker.node.features.share_groups.persister import Place
from broker.node.handlers.services import Services
from broker.node.net.requests import Request, guarded
from broker.node.replicas.partition_readers import Wakes
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response, to_ms

if TYPE_CHECKING:
    from broker.wire.shapes import share_fetch as shapes

LIMIT_OF_RECORDS = 1  # share_acquire_mode
ROUNDS_MAX = 10  # so often the request reads again at once, if no record that it read can be acquired


def handle(services: Services, request: Request[shapes.ShareFetchRequest]) -> None:
    message = request.message
    problem = refused(services, request) or _renew_problem(request)
    if problem is not None:
        _fail(request, *problem)
        return
    session = _session(services, request)
    if isinstance(session, ErrorCode):
        _fail(request, session, None)
        return
    services.part(SharePart).shares.watch_connections()
    fetch = _ShareFetch(services, request, session)
    asked = (
        (topic.topic_id, partition.partition_index, partition.acknowledgement_batches)
        for topic in message.topics
        for partition in topic.partitions
    )
    is_renewing = request.version >= RENEW_SINCE_VERSION and field_or(message, "is_renew_ack", False)
    acknowledge(services, request, asked, is_renewing=is_renewing, done=fetch.acknowledged)
    if message.share_session_epoch == FINAL_EPOCH or is_renewing or message.max_bytes == 0:
        fetch.finish([])
    else:
        fetch.start()


def _renew_problem(request: Request[shapes.ShareFetchRequest]) -> tuple[ErrorCode, str] | None:
    """The error of a request that renews locks and also fetches: locks must be renewed without a fetch."""
    message = request.message
    if request.version < RENEW_SINCE_VERSION or not field_or(message, "is_renew_ack", False):
        return None
    named = {
        "maxBytes": message.max_bytes,
        "minBytes": message.min_bytes,
        "maxRecords": message.max_records,
        "maxWaitMs": to_ms(message.max_wait),
    }
    wrong = [f"{name} must be set to 0, " for name, value in named.items() if value]
    return (ErrorCode.invalid_request, f"{''.join(wrong)}if isRenewAck is true.") if wrong else None


def _session(services: Services, request: Request[shapes.ShareFetchRequest]) -> ShareSession | ErrorCode:
    message, sessions = request.message, services.part(SharePart).shares.sessions
    group_id, member_id, epoch = str(message.group_id), str(message.member_id), message.share_session_epoch
    places = [
        (topic.topic_id, partition.partition_index)
        for topic in message.topics
        for partition in topic.partitions
        if topic.topic_id is not None
    ]
    services.part(SharePart).shares.end_if_lost(group_id, member_id)
    if epoch == FIRST_EPOCH:
        has_acks = any(part.acknowledgement_batches for topic in message.topics for part in topic.partitions)
        if has_acks:
            return ErrorCode.invalid_request
        return sessions.open(group_id, member_id, places, request.connection_check())
    session = sessions.resume(group_id, member_id, epoch, request.connection_check())
    if isinstance(session, ErrorCode) or epoch == FINAL_EPOCH:
        return session
    if not sessions.add(session, places):
        return ErrorCode.share_session_limit_reached
    for topic in message.forgotten_topics_data:
        for index in topic.partitions:
            if topic.topic_id is not None:
                session.places.pop((topic.topic_id, index), None)
    return session


class _ShareFetch:
    """One request. It is answered when its acknowledgements are written and records were acquired, at the latest
    after max_wait."""

    def __init__(self, services: Services, request: Request[shapes.ShareFetchRequest], session: ShareSession) -> None:
        self._services, self._request, self._session = services, request, session
        self._acks: dict[Place, Acknowledged] | None = None
        self._reads: list[ShareRead] | None = None
        self._places = session.turn()
        self._timer: asyncio.TimerHandle | None = None
        self._watched: list[Wakes] = []
        self._is_due = False

    def acknowledged(self, results: dict[Place, Acknowledged]) -> None:
        self._acks = results
        self._respond_when_done()

    def finish(self, reads: list[ShareRead]) -> None:
        self._stop_waiting()
        self._reads = reads
        self._respond_when_done()

    # -- waiting -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        wait_ms = to_ms(self._request.message.max_wait)
        reads = self._look(is_last=wait_ms <= 0)
        if reads is not None:
            self.finish(reads)
            return
        due = guarded(self._request, self._timed_out)
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, due)
        self._watch()

    def _watch(self) -> None:
        """Watches the share partitions that exist now. They may appear and disappear while the request waits."""
        for wakes in self._watched:
            wakes.discard(self._wake)
        self._watched = []
        for place in self._places:
            live = self._services.part(SharePart).shares.get(self._session.group_id, place)
            if isinstance(live, LiveShare):
                self._watched += [live.wakes, live.hosted.readers.consumers]
        for wakes in self._watched:
            wakes.add(self._wake)

    def _wake(self) -> None:
        """There is news. The request looks once, at the end of this wake-up, even if more news follows before."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(guarded(self._request, self._look_again))

    def _look_again(self) -> None:
        self._is_due = False
        if self._timer is None:
            return
        if not self._request.is_open:
            self._stop_waiting()
            return
        reads = self._look(is_last=False)
        if reads is None:
            self._watch()
        else:
            self.finish(reads)

    def _timed_out(self) -> None:
        if self._timer is not None:
            self.finish(self._look(is_last=True) or [] if self._request.is_open else [])

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for wakes in self._watched:
            wakes.discard(self._wake)
        self._watched = []

    # -- reading -----------------------------------------------------------------------------------------------------

    def _look(self, *, is_last: bool) -> list[ShareRead] | None:
        """Reads and acquires records. None means that the request must wait for more."""
        message = self._request.message
        for _ in range(ROUNDS_MAX):
            reads = self._read_all()
            size_bytes = sum(len(each.records) for each in reads)
            is_enough = size_bytes >= max(1, message.min_bytes) or (is_last and size_bytes > 0)
            has_error = any(each.error_code is not ErrorCode.none for each in reads)
            if is_enough:
                self._acquire(reads)
            if has_error or is_last or any(each.acquired for each in reads):
                return reads
            if not is_enough:
                return None
        return []

    def _read_all(self) -> list[ShareRead]:
        services = self._services
        left_bytes = self._bytes_max()
        settings = services.part(SharePart).shares.settings(self._session.group_id)
        reads: list[ShareRead] = []
        for place in self._places:
            if not may_read(services, self._request, place[0]):
                reads.append(ShareRead(place=place, error_code=ErrorCode.topic_authorization_failed))
                continue
            live = services.part(SharePart).shares.get(self._session.group_id, place)
            if isinstance(live, ErrorCode):
                reads.append(ShareRead(place=place, error_code=live))
                continue
            is_first = not any(each.records for each in reads)
            found = read(services.partitions, live, settings, left_bytes, is_first=is_first)
            if found is not None:
                left_bytes -= len(found.records)
                reads.append(found)
        return reads

    def _bytes_max(self) -> int:
        return min(self._request.message.max_bytes, self._services.config.network.fetch_max_bytes)

    def _acquire(self, reads: list[ShareRead]) -> None:
        message = self._request.message
        left = message.max_records
        is_strict = field_or(message, "share_acquire_mode", 0) == LIMIT_OF_RECORDS
        for each in reads:
            if each.records:
                left -= acquire(
                    each,
                    self._session.member_id,
                    records_max=left,
                    batch_size=message.batch_size,
                    is_strict=is_strict,
                )

    # -- answering ---------------------------------------------------------------------------------------------------

    def _respond_when_done(self) -> None:
        if self._acks is None or self._reads is None:
            return
        if self._request.message.share_session_epoch == FINAL_EPOCH:
            self._services.part(SharePart).shares.end_session(self._session, lambda errors: self._respond())
        else:
            self._respond()

    def _respond(self) -> None:
        services, request = self._services, self._request
        acks = self._acks or {}
        told = {each.place: each for each in self._reads or () if each.is_news}
        topics: dict[UUID, list[shapes.PartitionDataFields]] = {}
        leaders = []
        for place in dict.fromkeys([*told, *acks]):
            found = told.get(place) or ShareRead(place=place)
            ack = acks.get(place, Acknowledged(error_code=ErrorCode.none))
            error = found.error_code if found.error_code is not ErrorCode.none else ack.error_code
            leader = leader_of(services, place, error)
            leaders.append(leader)
            topics.setdefault(place[0], []).append(
                {
                    "partition_index": place[1],
                    "error_code": found.error_code,
                    "error_message": None,
                    "acknowledge_error_code": int(ack.error_code),
                    "acknowledge_error_message": ack.message,
                    "current_leader": {**(leader or NO_LEADER)},
                    "records": found.records if found.acquired else b"",
                    "acquired_records": [
                        {
                            "first_offset": each.first_offset,
                            "last_offset": each.last_offset,
                            "delivery_count": each.delivery_count,
                        }
                        for each in found.acquired
                    ],
                }
            )
        lock_ms = services.part(SharePart).shares.settings(self._session.group_id).limits.lock_duration_ms
        request.respond(
            response(
                ApiKey.SHARE_FETCH,
                request.version,
                error_code=ErrorCode.none,
                acquisition_lock_timeout=lock_ms,
                responses=[{"topic_id": topic_id, "partitions": parts} for topic_id, parts in topics.items()],
                node_endpoints=endpoints_of(services, request, leaders),
            )
        )


def _fail(request: Request[shapes.ShareFetchRequest], error: ErrorCode, text: str | None) -> None:
    request.respond(response(ApiKey.SHARE_FETCH, request.version, error_code=error, error_message=text, responses=[]))
