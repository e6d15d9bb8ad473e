"""DescribeCluster (key 60), versions 0-2: live brokers with the endpoints of the client's listener, and the controller.

Since version 2 fenced brokers are told too, if the client asks for them (KIP-1073). A broker's listener does not list
the controllers (KIP-919). Nothing is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.node.handlers import operations
from broker.node.handlers.forwarding import told_controller
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response

if TYPE_CHECKING:
    from broker.wire.shapes import describe_cluster as shapes

BROKERS, CONTROLLERS = 1, 2  # endpoint types


def handle(services: Services, request: AnyRequest[shapes.DescribeClusterRequest]) -> None:
    endpoint_type = field_or(request.message, "endpoint_type", BROKERS)
    if endpoint_type != BROKERS:
        is_known = endpoint_type == CONTROLLERS
        error = ErrorCode.mismatched_endpoint_type if is_known else ErrorCode.unsupported_endpoint_type
        refused = response(
            ApiKey.DESCRIBE_CLUSTER,
            request.version,
            error_code=error,
            error_message=f"endpoint type {endpoint_type} asked of a listener for {BROKERS} (brokers)",
            cluster_id="",
            brokers=[],
        )
        request.respond(refused)
        return
    image = services.metadata.image
    brokers: list[shapes.DescribeClusterBrokerFields] = []
    wants_fenced = field_or(request.message, "include_fenced_brokers", False)
    for broker_id, broker in sorted(image.brokers.items()):
        endpoint = broker.endpoints.get(request.listener_name)
        if endpoint is None or (broker.fenced and not wants_fenced):
            continue
        told: shapes.DescribeClusterBrokerFields = {
            "broker_id": broker_id,
            "host": endpoint.host,
            "port": endpoint.port,
            "rack": broker.rack,
            "is_fenced": broker.fenced,
        }
        brokers.append(told)
    request.respond(
        response(
            ApiKey.DESCRIBE_CLUSTER,
            request.version,
            endpoint_type=BROKERS,
            cluster_id=services.config.own.harness_cluster_id,
            controller_id=told_controller(services),
            brokers=brokers,
            cluster_authorized_operations=operations.asked_of_cluster(
                request.message.include_cluster_authorized_operations, request.access
            ),
        )
    )
