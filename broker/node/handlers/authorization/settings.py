"""Rules of the APIs that describe and change settings of topics, groups and the cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from broker.node.handlers import (
    api_33_alter_configs,
    api_44_incremental_alter_configs,
)
from broker.node.handlers.authorization.rules import (
    AnyApi,
    Entry,
    Item,
    Need,
    Rule,
    narrowing,
)
from broker.node.handlers.services import Services
from broker.security.acls import Operation, ResourceType
from broker.security.authorizer import Access
from broker.wire.errors import ErrorCode

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER

# The resource on which settings are authorized, by their resource type. For 4 (broker), 8 (loggers) and 16 (client
# metrics) it is the cluster.
_SETTINGS_OF = {2: TOPIC, 4: CLUSTER, 8: CLUSTER, 16: CLUSTER, 32: GROUP}
_SETTINGS_FAILED = {
    TOPIC: ErrorCode.topic_authorization_failed,
    CLUSTER: ErrorCode.cluster_authorization_failed,
    GROUP: ErrorCode.group_authorization_failed,
}


def _may_settings(access: Access, operation: Operation, item: Item) -> ErrorCode | None:
    kind = _SETTINGS_OF[item.resource_type]
    may = access.may_on_cluster(operation) if kind is CLUSTER else access.may(operation, kind, item.resource_name)
    return None if may else _SETTINGS_FAILED[kind]


def _settings(
    operation: Operation, answered: str, unjudged: Callable[[Services, Any], Collection[int]], **more: object
) -> Rule:
    """`unjudged` returns the positions of resources that are invalid for any client. They are not authorized; the
    handler refuses them."""

    def entry(item: Item, error: ErrorCode) -> Entry:
        return {
            "error_code": error,
            "error_message": None,
            "resource_type": item.resource_type,
            "resource_name": item.resource_name,
            **more,
        }

    def step(access: Access, services: Services, request: AnyApi) -> Any | None:
        wrong = unjudged(services, request.message)
        exempt = {id(item) for position, item in enumerate(request.message.resources) if position in wrong}

        def judge(access: Access, services: Services, item: Item) -> ErrorCode | None:
            return None if id(item) in exempt else _may_settings(access, operation, item)

        return narrowing("resources", judge, entry, answered)(access, services, request)

    text = "{} for that one"
    return Rule(
        needs=tuple(
            Need(operation=operation, resource=kind, otherwise=text.format(_SETTINGS_FAILED[kind].name.upper()))
            for kind in (TOPIC, GROUP, CLUSTER)
        ),
        steps=(step,),
        note="The settings of brokers and loggers are authorized on the cluster.",
    )


def _unknown_types(message: Any) -> set[int]:
    return {position for position, item in enumerate(message.resources) if item.resource_type not in _SETTINGS_OF}


def _described(services: Services, message: Any) -> Collection[int]:
    """An unknown resource type makes the whole request fail. So in this case no resource is authorized."""
    return range(len(message.resources)) if _unknown_types(message) else ()


def _altered(services: Services, message: Any) -> Collection[int]:
    wrong = api_33_alter_configs.problems_of(message)
    return _unknown_types(message) | wrong.keys()


def _altered_incrementally(services: Services, message: Any) -> Collection[int]:
    wrong = api_44_incremental_alter_configs.problems_of(message)
    return _unknown_types(message) | wrong.keys()


DESCRIBE_CONFIGS = _settings(Operation.DESCRIBE_CONFIGS, "results", _described, configs=[])
ALTER_CONFIGS = _settings(Operation.ALTER_CONFIGS, "responses", _altered)
INCREMENTAL_ALTER_CONFIGS = _settings(Operation.ALTER_CONFIGS, "responses", _altered_incrementally)
