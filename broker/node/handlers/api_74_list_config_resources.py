"""ListConfigResources (key 74), version 1 (KIP-1142): the resources that have settings, by type.

A group is listed if it has settings of its own. An empty list of types asks for all of them. Version 0 (formerly
ListClientMetricsResources) lists only subscriptions of clients' metrics (KIP-714), which there are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker.controller.image import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    LOGGER_RESOURCE,
    TOPIC_RESOURCE,
)
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import list_config_resources as shapes

LISTED = (TOPIC_RESOURCE, BROKER_RESOURCE, LOGGER_RESOURCE, GROUP_RESOURCE)


def handle(services: Services, request: AnyRequest[shapes.ListConfigResourcesRequest]) -> None:
    wanted = request.message.resource_types or LISTED
    if not set(wanted) <= set(LISTED):
        request.respond(_answer(request, ErrorCode.unsupported_version, ()))
        return
    found = [(kind, name) for kind in LISTED if kind in wanted for name in _names(services, request, kind)]
    request.respond(_answer(request, ErrorCode.none, found))


def _names(services: Services, request: AnyRequest[shapes.ListConfigResourcesRequest], kind: int) -> Iterable[str]:
    image = services.metadata.image
    if kind == TOPIC_RESOURCE:
        return image.topics
    if kind in (BROKER_RESOURCE, LOGGER_RESOURCE):
        live = image.live_broker_ids()
        return [str(each) for each in live if request.listener_name in image.brokers[each].endpoints]
    return image.configs_of(kind)


def _answer(
    request: AnyRequest[shapes.ListConfigResourcesRequest], error: ErrorCode, found: Iterable[tuple[int, str]]
) -> shapes.ListConfigResourcesResponse:
    resources: list[shapes.ConfigResourceFields] = [
        {"resource_name": name, "resource_type": kind} for kind, name in found
    ]
    return response(ApiKey.LIST_CONFIG_RESOURCES, request.version, error_code=error, config_resources=resources)
