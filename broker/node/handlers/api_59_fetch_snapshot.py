"""FetchSnapshot (key 59), version 1, on the controller listener: a voter gets the leader's snapshot (KIP-630).

Not done: other versions (all voters run the same release), observers, directory ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.node.control import AnyRequest

if TYPE_CHECKING:
    from broker.node.broker import Broker


def handle(broker: Broker, request: AnyRequest) -> None:
    broker.metadata.quorum_request(request.message, request.respond)
