"""Vote (key 52), version 2, on the controller listener: a voter speaks to the quorum core of this node.

Not done: other versions (all voters run the same release), directory ids, leader endpoints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.node.control import AnyRequest

if TYPE_CHECKING:
    from broker.node.broker import Broker


def handle(broker: Broker, request: AnyRequest) -> None:
    broker.metadata.quorum_request(request.message, request.respond)
