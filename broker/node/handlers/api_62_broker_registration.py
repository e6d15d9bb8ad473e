"""BrokerRegistration (key 62), versions 0-4, on the controller listener: a broker joins the cluster, fenced at first.

Not done: features, log directory ids, migration from ZooKeeper, previous broker epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.controller.records import Endpoint
from broker.controller.types import RegisterBroker
from broker.node.control import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.node.broker import Broker


def handle(broker: Broker, request: AnyRequest) -> None:
    message = request.message
    if message.cluster_id != broker.config.harness_cluster_id:
        error = ErrorCode.inconsistent_cluster_id
        request.respond(response(ApiKey.BROKER_REGISTRATION, request.version, error_code=error, broker_epoch=-1))
        return
    endpoints = tuple(Endpoint(listener=each.name, host=each.host, port=each.port) for each in message.listeners)

    def answer(result: Any) -> None:  # the response type of this request
        request.respond(
            response(
                ApiKey.BROKER_REGISTRATION,
                request.version,
                error_code=result.error_code,
                broker_epoch=result.broker_epoch,
            )
        )

    broker.ask_controller(
        request,
        lambda token: RegisterBroker(
            token=token,
            broker_id=message.broker_id,
            incarnation_id=message.incarnation_id,
            endpoints=endpoints,
            rack=message.rack,
        ),
        answer,
    )
