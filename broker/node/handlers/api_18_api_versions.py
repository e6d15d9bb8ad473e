"""ApiVersions (key 18), versions 0-4: what this listener offers.

A version that we lack is answered in version 0 with error 35 (see connection.py), a client's software name or version
that is none (KIP-511) with INVALID_REQUEST. Features: transaction.version 2 (KIP-890 part 2), fixed; there is no
UpdateFeatures.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey, advertised
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import api_versions as shapes

# Name and level. Clients use the transaction version that is finalized; those that know none use version 1.
FEATURES = (("transaction.version", 2),)
FEATURES_EPOCH = 0  # features never change while a cluster lives
SOFTWARE_SINCE_VERSION = 3
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(services: Services, request: AnyRequest[shapes.ApiVersionsRequest]) -> None:
    message = request.message
    if request.version >= SOFTWARE_SINCE_VERSION:
        named = (message.client_software_name, message.client_software_version)
        if not all(_SOFTWARE.fullmatch(each) for each in named):
            error = ErrorCode.invalid_request
            request.respond(response(ApiKey.API_VERSIONS, request.version, error_code=error, api_keys=[]))
            return
    keys: list[shapes.ApiVersionFields] = [
        {"api_key": key, "min_version": low, "max_version": high}
        for key, low, high in advertised(request.listener)
        if key in services.offered
    ]
    request.respond(
        response(
            ApiKey.API_VERSIONS,
            request.version,
            api_keys=keys,
            supported_features=[{"name": name, "min_version": 0, "max_version": level} for name, level in FEATURES],
            finalized_features=[
                {"name": name, "min_version_level": level, "max_version_level": level} for name, level in FEATURES
            ],
            finalized_features_epoch=FEATURES_EPOCH,
        )
    )
