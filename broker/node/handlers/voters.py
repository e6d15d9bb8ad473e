"""Vote (key 52), version 2, BeginQuorumEpoch (key 53) and EndQuorumEpoch (key 54), version 1, and FetchSnapshot
(key 59), version 1, on the controller listener: a voter's requests to the quorum core of this node. With FetchSnapshot
a voter gets the leader's snapshot (KIP-630).

Not done: other versions (all voters run the same release), observers, directory ids, leader endpoints.
"""

from __future__ import annotations

from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest, Asked


def handle(services: Services, request: AnyRequest[Asked]) -> None:
    services.metadata.quorum_request(request.message, request.respond)
