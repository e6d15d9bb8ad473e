"""The common parts of the two APIs that change settings: their answers, and the check whether this broker's image shows
a change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from broker.controller.image import MetadataImage
from broker.controller.setting_types import AlterConfigsResponse
from broker.wire.errors import ErrorCode

if TYPE_CHECKING:
    from broker.wire.shapes import alter_configs, incremental_alter_configs

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3  # operations of IncrementalAlterConfigs; AlterConfigs only sets
# One resource of a request, and its outcome. In both APIs the two have the same names and fields.
Resource: TypeAlias = "alter_configs.AlterConfigsResource | incremental_alter_configs.AlterConfigsResource"
Outcome: TypeAlias = (
    "alter_configs.AlterConfigsResourceResponse | incremental_alter_configs.AlterConfigsResourceResponse"
)
OutcomeFields: TypeAlias = "incremental_alter_configs.AlterConfigsResourceResponseFields"
Change: TypeAlias = tuple[int, str, str | None]  # operation, key, value


def outcomes(
    resources: Sequence[Resource], result: AlterConfigsResponse, wrong: Mapping[int, str]
) -> list[OutcomeFields]:
    """The results in the order of the request's resources. `wrong` has the errors of resources that were not sent to
    the controller, by position."""
    if result.error_code != ErrorCode.none:
        return all_failed(resources, ErrorCode(result.error_code), None)
    answers = iter(result.resources)
    responses = []
    for position, resource in enumerate(resources):
        if position in wrong:
            error, cause = int(ErrorCode.invalid_request), wrong[position]
        else:
            altered = next(answers)
            error, cause = altered.error_code, altered.error_message or ""
        responses.append(_entry(resource, error, cause or None))
    return responses


def named_twice(resources: Sequence[Resource]) -> dict[int, str]:
    """The errors of resources that a request names more than once, by their position."""
    times = Counter((each.resource_type, each.resource_name) for each in resources)
    return {
        position: "Each resource must appear at most once."
        for position, each in enumerate(resources)
        if times[each.resource_type, each.resource_name] > 1
    }


def all_failed(resources: Sequence[Resource], error: ErrorCode, cause: str | None) -> list[OutcomeFields]:
    return [_entry(resource, error, cause) for resource in resources]


def _entry(resource: Resource, error: int, cause: str | None) -> OutcomeFields:
    return {
        "error_code": error,
        "error_message": cause,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }


def shows(
    image: MetadataImage, asked: Iterable[tuple[Resource, Iterable[Change]]], answered: Iterable[Outcome]
) -> bool:
    """Whether this broker's image contains the changes. Only changes that the controller accepted are checked."""
    accepted = {(each.resource_type, each.resource_name) for each in answered if each.error_code == 0}
    for resource, changes in asked:
        if (resource.resource_type, resource.resource_name) not in accepted:
            continue
        values = image.configs_of(resource.resource_type).get(resource.resource_name, {})
        for operation, key, value in changes:
            if operation == SET and values.get(key) != value:
                return False
            if operation == DELETE and key in values:
                return False
    return True
