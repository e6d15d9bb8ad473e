"""UnregisterBroker (key 64), version 0 (KIP-631): removes a broker that will not come back.

The broker is removed from the list of brokers. Its replicas stay in the lists of replicas until a reassignment removes
them. A broker that still runs stays out of the cluster until it is started again. On a client listener it is forwarded
to the controller.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker.controller.reassignment_types import UnregisterBroker, UnregisterBrokerResponse
from broker.node.handlers.forwarding import Forward
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import unregister_broker as shapes


def event(services: Services, request: AnyRequest[shapes.UnregisterBrokerRequest]) -> MakeEvent:
    broker_id = request.message.broker_id
    return lambda token: UnregisterBroker(token=token, broker_id=broker_id)


def answer(
    services: Services, request: AnyRequest[shapes.UnregisterBrokerRequest], result: UnregisterBrokerResponse
) -> shapes.UnregisterBrokerResponse:
    return _answer(request, ErrorCode(result.error_code), result.error_message)


def _answer(
    request: AnyRequest[shapes.UnregisterBrokerRequest], error: ErrorCode, message: str | None
) -> shapes.UnregisterBrokerResponse:
    return response(ApiKey.UNREGISTER_BROKER, request.version, error_code=error, error_message=message)


def _unsure(answered: shapes.UnregisterBrokerResponse) -> shapes.UnregisterBrokerResponse:
    if answered.error_code is not ErrorCode.broker_id_not_registered:
        return answered
    error = "the controller was asked more than once, and a request before the last may have unregistered it"
    return replace(answered, error_code=ErrorCode.request_timed_out, error_message=error)


CONTROLLER = ControllerApi(event=event, answer=answer)
FORWARD: Forward[shapes.UnregisterBrokerRequest, shapes.UnregisterBrokerResponse] = Forward(
    version=0,
    failed=_answer,
    is_visible=lambda image, message, answered: (
        answered.error_code is not ErrorCode.none or message.broker_id not in image.brokers
    ),
    repeated=_unsure,
)
