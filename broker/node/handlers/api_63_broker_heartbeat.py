"""BrokerHeartbeat (key 63), version 2, on the controller listener: a broker is alive, and may ask to stop.

It also tells which log directories have failed (KIP-858), and which are cordoned (KIP-1066). A replica that failed by
itself counts as a log directory too (`replica_directory` of broker/controller/records.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controller.types import BrokerHeartbeat, BrokerHeartbeatResponse
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import broker_heartbeat as shapes


def event(services: Services, request: AnyRequest[shapes.BrokerHeartbeatRequest]) -> MakeEvent:
    message = request.message
    offline = frozenset(each for each in message.offline_log_dirs or () if each is not None)
    named = message.cordoned_log_dirs
    cordoned = None if named is None else frozenset(each for each in named if each is not None)
    return lambda token: BrokerHeartbeat(
        token=token,
        broker_id=message.broker_id,
        broker_epoch=message.broker_epoch,
        current_metadata_offset=message.current_metadata_offset,
        want_fence=message.want_fence,
        want_shut_down=message.want_shut_down,
        offline_directories=offline,
        cordoned_directories=cordoned,
    )


def answer(
    services: Services, request: AnyRequest[shapes.BrokerHeartbeatRequest], result: BrokerHeartbeatResponse
) -> shapes.BrokerHeartbeatResponse:
    return response(
        ApiKey.BROKER_HEARTBEAT,
        request.version,
        error_code=result.error_code,
        is_caught_up=result.is_caught_up,
        is_fenced=result.is_fenced,
        should_shut_down=result.should_shut_down,
    )


CONTROLLER = ControllerApi(event=event, answer=answer)
