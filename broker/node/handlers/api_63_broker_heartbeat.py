"""BrokerHeartbeat (key 63), versions 0-1, on the controller listener: a broker lives, and may ask to stop.

It also tells which log directories failed, each partition's counting as one (KIP-858, broker/controller/records.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.controller.types import BrokerHeartbeat
from broker.node.control import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.node.broker import Broker


def handle(broker: Broker, request: AnyRequest) -> None:
    message = request.message

    def answer(result: Any) -> None:  # the response type of this request
        request.respond(
            response(
                ApiKey.BROKER_HEARTBEAT,
                request.version,
                error_code=result.error_code,
                is_caught_up=result.is_caught_up,
                is_fenced=result.is_fenced,
                should_shut_down=result.should_shut_down,
            )
        )

    broker.ask_controller(
        request,
        lambda token: BrokerHeartbeat(
            token=token,
            broker_id=message.broker_id,
            broker_epoch=message.broker_epoch,
            current_metadata_offset=message.current_metadata_offset,
            want_fence=message.want_fence,
            want_shut_down=message.want_shut_down,
            offline_directories=frozenset(getattr(message, "offline_log_dirs", None) or ()) - {None},
        ),
        answer,
    )
