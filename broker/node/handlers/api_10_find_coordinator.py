"""FindCoordinator (key 10), versions 0-6: always COORDINATOR_NOT_AVAILABLE.

Not done: groups and transactions, which will live in broker/coordinator. Clients take the code as "ask again later".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.node.control import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.node.broker import Broker

KEYS_SINCE_VERSION = 4


def handle(broker: Broker, request: AnyRequest) -> None:
    nobody = {
        "error_code": ErrorCode.coordinator_not_available,
        "error_message": "this broker has no groups or transactions yet",
        "node_id": -1,
        "host": "",
        "port": -1,
    }
    if request.version < KEYS_SINCE_VERSION:
        request.respond(response(ApiKey.FIND_COORDINATOR, request.version, **nobody))
        return
    coordinators = [{"key": key, **nobody} for key in request.message.coordinator_keys]
    request.respond(response(ApiKey.FIND_COORDINATOR, request.version, coordinators=coordinators))
