"""UpdateFeatures (key 57), versions 0-2 (KIP-584): changes the levels of the cluster's features; either all are changed
or none.

As in Kafka, version 0 can only raise them: its `allow_downgrade` is ignored. On a client listener it is forwarded to
the controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controller.feature_types import UPGRADE, FeatureUpdate, UpdateFeatures, UpdateFeaturesResponse
from broker.controller.features import level_of
from broker.controller.image import MetadataImage
from broker.node.handlers.forwarding import Forward
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response

if TYPE_CHECKING:
    from broker.wire.shapes import update_features as shapes

FORWARDED_VERSION = 1  # its answer names the features that were updated, for clients of versions 0 and 1


def event(services: Services, request: AnyRequest[shapes.UpdateFeaturesRequest]) -> MakeEvent:
    message = request.message
    updates = tuple(
        FeatureUpdate(
            name=each.feature, level=each.max_version_level, upgrade_type=field_or(each, "upgrade_type", UPGRADE)
        )
        for each in message.feature_updates
    )
    validate_only = field_or(message, "validate_only", False)
    return lambda token: UpdateFeatures(token=token, updates=updates, validate_only=validate_only)


def answer(
    services: Services, request: AnyRequest[shapes.UpdateFeaturesRequest], result: UpdateFeaturesResponse
) -> shapes.UpdateFeaturesResponse:
    return _answer(request, ErrorCode(result.error_code), result.error_message)


def _answer(
    request: AnyRequest[shapes.UpdateFeaturesRequest], error: ErrorCode, message: str | None
) -> shapes.UpdateFeaturesResponse:
    """Versions 0 and 1 name each feature that was updated. The text "NONE" is the same as in Kafka."""
    updated = request.message.feature_updates if error is ErrorCode.none else ()
    results: list[shapes.UpdatableFeatureResultFields] = [
        {"feature": each.feature, "error_code": ErrorCode.none, "error_message": "NONE"} for each in updated
    ]
    return response(ApiKey.UPDATE_FEATURES, request.version, error_code=error, error_message=message, results=results)


def _shows(
    image: MetadataImage, message: shapes.UpdateFeaturesRequest, answered: shapes.UpdateFeaturesResponse
) -> bool:
    if field_or(message, "validate_only", False) or answered.error_code is not ErrorCode.none:
        return True
    levels = {each.feature: each.max_version_level for each in message.feature_updates}
    return all(level_of(image, name) == level for name, level in levels.items())


CONTROLLER = ControllerApi(event=event, answer=answer)
FORWARD: Forward[shapes.UpdateFeaturesRequest, shapes.UpdateFeaturesResponse] = Forward(
    version=FORWARDED_VERSION, failed=_answer, is_visible=_shows
)
