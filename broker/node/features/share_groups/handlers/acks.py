"""The common parts of ShareFetch and ShareAcknowledge: acknowledgements, hints about leaders, and refusals.

An acknowledgement is answered for each partition, when the share coordinator has written it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias
from uuid import UUID

from broker.node.features.share_groups.delivery.partition import REJECT, RENEW, Acknowledgement
from broker.node.features.share_groups.live_share import LiveShare
from broker.node.features.share_groups.part import SharePart
from broker.node.features.share_groups.persister import Place
from broker.node.handlers.services import Services
from broker.node.net.requests import Request, guarded
from broker.security.acls import Operation, ResourceType
from broker.wire.errors import ErrorCode
from broker.wire.messages import ZERO_UUID

if TYPE_CHECKING:
    from broker.wire.shapes import share_acknowledge, share_fetch

    ShareRequest: TypeAlias = (
        Request[share_fetch.ShareFetchRequest] | Request[share_acknowledge.ShareAcknowledgeRequest]
    )

RENEW_SINCE_VERSION = 2
MEMBER_ID_CHARACTERS_MAX = 36  # Kafka's
NO_LEADER: share_fetch.LeaderIdAndEpochFields = {"leader_id": 0, "leader_epoch": 0}  # the default values in Kafka
LEADER_HINT_ERRORS = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})  # KIP-951


class AckBatch(Protocol):
    @property
    def first_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def acknowledge_types(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    error_code: ErrorCode
    message: str | None = None


def refusal(services: Services, request: ShareRequest) -> tuple[ErrorCode, str | None] | None:
    """The error that makes the whole request invalid. None if it is valid."""
    message = request.message
    if not services.part(SharePart).is_on:
        return ErrorCode.unsupported_version, None
    if message.group_id is None:
        return ErrorCode.invalid_request, "Invalid group id in the request."
    if not message.member_id or len(message.member_id) > MEMBER_ID_CHARACTERS_MAX:
        return ErrorCode.invalid_request, "Invalid member id in the request."
    return None


def may_read(services: Services, request: ShareRequest, topic_id: UUID | None) -> bool:
    """Whether the client may read the topic. A topic that does not exist is not refused here."""
    name = services.metadata.image.topic_names.get(topic_id)
    access = request.access
    return access is None or name is None or access.may(Operation.READ, ResourceType.TOPIC, name)


def acknowledge(
    services: Services,
    request: ShareRequest,
    asked: Iterable[tuple[UUID | None, int, tuple[AckBatch, ...]]],
    *,
    is_renewing: bool,
    done: Callable[[dict[Place, Acknowledged]], None],
) -> None:
    """Handles the acknowledgements. `done` is called once, perhaps at once, with the result of each partition."""
    message = request.message
    assert message.group_id is not None
    assert message.member_id is not None
    results: dict[Place, Acknowledged] = {}
    to_ask: list[tuple[LiveShare, list[Acknowledgement]]] = []
    may_renew = services.part(SharePart).shares.settings(message.group_id).may_renew
    for topic_id, index, batches in asked:
        if not batches:
            continue
        place = (topic_id or ZERO_UUID, index)
        problem = _problem(batches, is_renewing=is_renewing, may_renew=may_renew)
        if problem is not None:
            results[place] = problem
        elif topic_id is None:
            results[place] = Acknowledged(error_code=ErrorCode.unknown_topic_id)
        elif not may_read(services, request, topic_id):
            results[place] = Acknowledged(error_code=ErrorCode.topic_authorization_failed)
        elif isinstance(live := services.part(SharePart).shares.get(message.group_id, place), ErrorCode):
            is_unknown = live is ErrorCode.unknown_topic_id
            results[place] = Acknowledged(error_code=ErrorCode.unknown_topic_or_partition if is_unknown else live)
        elif live.core is None:
            # The member acquired its records from an earlier leader. They are offered again.
            results[place] = Acknowledged(error_code=ErrorCode.invalid_record_state)
        else:
            to_ask.append((live, [_acknowledgement(batch) for batch in batches]))
    waiting = len(to_ask)
    if not to_ask:
        done(results)

    def told(place: Place) -> Callable[[ErrorCode, str | None], None]:
        def put(error: ErrorCode, text: str | None) -> None:
            nonlocal waiting
            results[place] = Acknowledged(error_code=error, message=text)
            waiting -= 1
            if waiting == 0:
                done(results)

        return put

    for live, acks in to_ask:
        live.acknowledge(message.member_id, acks, guarded(request, told(live.place)))


def _acknowledgement(batch: AckBatch) -> Acknowledgement:
    return Acknowledgement(
        first_offset=batch.first_offset, last_offset=batch.last_offset, types=batch.acknowledge_types
    )


def _problem(batches: Iterable[AckBatch], *, is_renewing: bool, may_renew: bool) -> Acknowledged | None:
    highest = RENEW if is_renewing else REJECT
    before = -1
    for batch in batches:
        types, count = batch.acknowledge_types, batch.last_offset - batch.first_offset + 1
        is_whole = batch.first_offset > before and count >= 1 and len(types) in (1, count)
        if not is_whole or not all(0 <= kind <= highest for kind in types):
            return Acknowledged(error_code=ErrorCode.invalid_request)
        if RENEW in types and not may_renew:
            text = "Renewing acquisition locks is not enabled for the group."
            return Acknowledged(error_code=ErrorCode.invalid_record_state, message=text)
        before = batch.last_offset
    return None


def leader_of(services: Services, place: Place, error: ErrorCode) -> share_fetch.LeaderIdAndEpochFields | None:
    """The present leader of the partition, for a client that asked a broker that does not lead it (KIP-951)."""
    name = services.metadata.image.topic_names.get(place[0])
    state = None if name is None else services.metadata.image.partition(name, place[1])
    if state is None or error not in LEADER_HINT_ERRORS:
        return None
    return {"leader_id": state.leader, "leader_epoch": state.leader_epoch}


def endpoints_of(
    services: Services, request: ShareRequest, leaders: Iterable[share_fetch.LeaderIdAndEpochFields | None]
) -> list[share_fetch.NodeEndpointFields]:
    """The endpoints of these leaders."""
    found: list[share_fetch.NodeEndpointFields] = []
    for broker_id in sorted({leader["leader_id"] for leader in leaders if leader is not None}):
        registration = services.metadata.image.brokers.get(broker_id)
        endpoint = None if registration is None else registration.endpoints.get(request.listener_name)
        if registration is not None and endpoint is not None:
            rack = registration.rack
            found.append({"node_id": broker_id, "host": endpoint.host, "port": endpoint.port, "rack": rack})
    return found
