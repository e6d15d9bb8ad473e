"""DescribeCluster (key 60), versions 0-2: live brokers at the endpoints of the client's listener, and the controller.

Not done: authorized operations, the controller endpoint type (answered as brokers), fenced brokers (version 2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.node.control import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.node.broker import Broker

UNKNOWN_OPERATIONS = -(2**31)


def handle(broker: Broker, request: AnyRequest) -> None:
    image = broker.metadata.image
    brokers = []
    for broker_id in image.live_broker_ids():
        endpoint = image.brokers[broker_id].endpoints.get(request.listener_name)
        if endpoint is not None:
            brokers.append({"broker_id": broker_id, "host": endpoint.host, "port": endpoint.port, "rack": None})
    request.respond(
        response(
            ApiKey.DESCRIBE_CLUSTER,
            request.version,
            endpoint_type=getattr(request.message, "endpoint_type", 1),
            cluster_id=broker.config.harness_cluster_id,
            controller_id=broker.metadata.leader_id,
            brokers=brokers,
            cluster_authorized_operations=UNKNOWN_OPERATIONS,
        )
    )
