"""BrokerRegistration (key 62), version 4, on the controller listener: a broker joins the cluster, fenced at first.

A broker without log directories is refused, as by Kafka since KIP-858.
Not done: features, migration from ZooKeeper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controller.records import Endpoint
from broker.controller.types import RegisterBroker, RegisterBrokerResponse
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import broker_registration as shapes


def refusal(
    services: Services, request: AnyRequest[shapes.BrokerRegistrationRequest]
) -> shapes.BrokerRegistrationResponse | None:
    message = request.message
    if message.cluster_id != services.config.own.harness_cluster_id:
        error = ErrorCode.inconsistent_cluster_id
    elif not message.log_dirs:
        error = ErrorCode.invalid_registration
    else:
        return None
    return response(ApiKey.BROKER_REGISTRATION, request.version, error_code=error, broker_epoch=-1)


def event(services: Services, request: AnyRequest[shapes.BrokerRegistrationRequest]) -> MakeEvent:
    message = request.message
    endpoints = tuple(
        Endpoint(listener=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
        for each in message.listeners
    )
    return lambda token: RegisterBroker(
        token=token,
        broker_id=message.broker_id,
        incarnation_id=message.incarnation_id,
        endpoints=endpoints,
        rack=message.rack,
        previous_broker_epoch=message.previous_broker_epoch,
        log_directories=tuple(message.log_dirs or ()),
    )


def answer(
    services: Services, request: AnyRequest[shapes.BrokerRegistrationRequest], result: RegisterBrokerResponse
) -> shapes.BrokerRegistrationResponse:
    return response(
        ApiKey.BROKER_REGISTRATION,
        request.version,
        error_code=result.error_code,
        broker_epoch=result.broker_epoch,
    )


CONTROLLER = ControllerApi(event=event, answer=answer)
