"""ApiVersions (key 18), versions 0-4: what this listener offers.

A version that we lack is answered in version 0 with error 35 (see connection.py). Not done: features other than none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.node.control import AnyRequest
from broker.wire.apis import ApiKey, advertised
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.node.broker import Broker


def handle(broker: Broker, request: AnyRequest) -> None:
    from broker.node.handlers import HANDLERS  # the table imports this file

    keys = [
        {"api_key": key, "min_version": low, "max_version": high}
        for key, low, high in advertised(request.listener)
        if ApiKey(key) in HANDLERS
    ]
    request.respond(response(ApiKey.API_VERSIONS, request.version, api_keys=keys, finalized_features_epoch=-1))
