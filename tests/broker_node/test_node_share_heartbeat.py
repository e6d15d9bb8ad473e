"""ShareGroupHeartbeat: what becomes of a member whose partitions cannot be given a state yet."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from broker.node.features.share_groups.groups.events import ShareHeartbeat, ShareHeartbeatResult, SharesInitialized
from broker.node.features.share_groups.handlers.api_76_share_group_heartbeat import handle
from broker.node.features.share_groups.part import SharePart
from broker.node.net.principal import ANONYMOUS
from broker.node.net.requests import Request
from broker.wire.apis import ApiKey, Listener
from broker.wire.codec import RequestHeader, decode_response
from broker.wire.errors import ErrorCode
from broker.wire.messages import request as make_request

TOPIC, HEARTBEAT_MS = UUID(int=7), 5_000


class Origin:
    """A connection that keeps what goes out."""

    is_closed, peer_host, listener, listener_name = False, "/10.0.0.1", Listener.CLIENT, "EXTERNAL"
    principal = ANONYMOUS

    def answer_ready(self, size_bytes: int) -> None:
        pass

    def request_failed(self, api_key: int, cause: str) -> None:
        raise AssertionError(cause)


class Groups:
    """A group that wants states made, whenever it is asked. It keeps the events."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def ask(self, group_id: str, event: Any, result_type: type, *, done: Any, refused: Any) -> None:
        self.events.append(event(len(self.events)))
        if isinstance(self.events[-1], SharesInitialized):
            done(ErrorCode.none)
        else:
            wanted = {TOPIC: {0: -1}}
            done(
                ShareHeartbeatResult(
                    error_code=ErrorCode.none, member_id="m", member_epoch=3, to_initialize=wanted, state_epoch=3
                )
            )


def beat_with(error_code: ErrorCode) -> tuple[Any, Groups]:
    """The answer to a heartbeat, if the share coordinator answers this to the making of a state."""

    async def initialize(group_id: str, state_epoch: int, wanted: object) -> dict[Any, Any]:
        return {(TOPIC, 0): SimpleNamespace(error_code=error_code, message="words")}

    groups, kept = Groups(), []
    persister = SimpleNamespace(initialize=initialize)
    part = SimpleNamespace(
        is_on=True,
        heartbeat_interval_ms=lambda group_id: HEARTBEAT_MS,
        shares=SimpleNamespace(persister=persister),
    )
    services: Any = SimpleNamespace(
        groups=groups,
        part=lambda kind: {SharePart: part}[kind],
        serve=lambda request, work: kept.append(work),
        logger=SimpleNamespace(warning=lambda *_, **__: None),
    )
    message = make_request(
        ApiKey.SHARE_GROUP_HEARTBEAT, 1, group_id="g", member_id="m", member_epoch=0, rack_id=None,
        subscribed_topic_names=["t"],
    )  # fmt: skip
    header = RequestHeader(
        api_key=ApiKey.SHARE_GROUP_HEARTBEAT, api_version=1, correlation_id=1, client_id="c", body_position=0
    )
    origin: Any = Origin()
    request: Request[Any] = Request(origin, header, message)
    handle(services, request)
    (work,) = kept
    asyncio.run(work)
    frame = b"".join(bytes(each) for each in request.take() or [])
    return decode_response(ApiKey.SHARE_GROUP_HEARTBEAT, 1, frame[4:])[1], groups


def test_a_state_that_cannot_be_made_is_no_error_of_the_member() -> None:
    """The topic may have been deleted meanwhile. Clients end at such an error, and Apache Kafka answers none."""
    for error in (ErrorCode.unknown_topic_or_partition, ErrorCode.coordinator_not_available):
        answer, groups = beat_with(error)
        assert (answer.error_code, answer.member_epoch) == (ErrorCode.none, 3)
        beats = [each for each in groups.events if isinstance(each, ShareHeartbeat)]
        (told,) = (each for each in groups.events if isinstance(each, SharesInitialized))
        assert (len(beats), told.is_done) == (2, False)
