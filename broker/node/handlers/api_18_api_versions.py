"""ApiVersions (key 18), versions 0-4: the APIs and versions that this listener offers.

An unknown version is answered in version 0 with error 35 (see connection.py). An invalid software name or version of
the client (KIP-511) gets INVALID_REQUEST. Features (KIP-584) are those of broker/controller/features.py. Before version
4, features that may be at level 0 are left out of the supported ones, because older clients do not accept them
(KAFKA-17011).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from broker.controller.features import FEATURES
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey, advertised
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import api_versions as shapes

SOFTWARE_SINCE_VERSION = 3
LEVEL_0_SINCE_VERSION = 4
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
    image = services.metadata.image
    request.respond(
        response(
            ApiKey.API_VERSIONS,
            request.version,
            api_keys=keys,
            supported_features=[
                {"name": name, "min_version": levels.low, "max_version": levels.high}
                for name, levels in FEATURES.items()
                if levels.low or request.version >= LEVEL_0_SINCE_VERSION
            ],
            finalized_features=[
                {"name": name, "min_version_level": level, "max_version_level": level}
                for name, level in sorted(image.features.items())
            ],
            finalized_features_epoch=image.offset,
        )
    )
