"""Checks whether this broker could use new settings, before they are stored. Only the broker itself can tell: it has
the files of its listeners (`listener.name.NAME.KEY`), the log directories that may be cordoned, and settings that bound
the new ones. So a broker refuses settings that are another broker's, as Apache Kafka does.

Other resources of the same request are not affected. The check runs when a request is forwarded, so the client is
authorized. It reads files in a thread. Shown by tests/broker_node/test_node_own_settings.py and test_node_no_rights.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from broker.controller.broker_configs import (
    CORDONED,
    GROUP_TIMES,
    LIST_BROKER_CONFIGS,
    broker_config_problem,
    listener_of,
)
from broker.controller.configs import changed_list
from broker.controller.image import BROKER_RESOURCE
from broker.node.handlers.config_answers import APPEND, DELETE, SUBTRACT, Change, OutcomeFields, Resource, all_failed
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest, Request
from broker.node.net.tls import server_context
from broker.node.settings.properties import with_dynamic
from broker.node.settings.security import ListenerSecurity, SecurityError, security_of
from broker.node.settings.topic_config import broker_overrides
from broker.wire.errors import ErrorCode

# What a resource's settings would be, from those that are set now. The resource is one of either API.
After = Callable[[Mapping[str, str], Any], Mapping[str, str]]


async def refuse(
    services: Services,
    request: AnyRequest[Any],
    malformed: Container[int],
    after: After,
    answered: Callable[[list[OutcomeFields]], Any],
) -> Any | None:
    """The answer, if the request asks only for what this broker refuses. Otherwise the request goes on without those
    resources, and None is the result. `malformed`: the positions of resources that are refused anyway."""
    assert isinstance(request, Request), "this broker asks itself as on the controllers' listener"
    resources: Sequence[Resource] = request.message.resources
    problems: dict[tuple[int, str], str] = {}
    for position, resource in enumerate(resources):
        if resource.resource_type != BROKER_RESOURCE or position in malformed:
            continue
        checked = _checked(services, resource.resource_name, resource, after)
        if not isinstance(checked, str | None):
            request.take_alone()  # the next request of this connection must not be forwarded before this one
            checked = await asyncio.to_thread(_store_problem, checked)
        if checked is not None:
            problems[_key(resource)] = checked
    if not problems:
        return None
    refused = [each for each in resources if _key(each) in problems]
    told = [all_failed([each], ErrorCode.invalid_request, problems[_key(each)])[0] for each in refused]
    answer = answered(told)
    if len(refused) == len(resources):
        return answer
    request.message = replace(
        request.message, resources=tuple(each for each in resources if _key(each) not in problems)
    )

    def in_order(others: Any) -> Any:
        by_key = {_key(each): each for each in (*others.responses, *answer.responses)}
        keys = dict.fromkeys(map(_key, resources))
        denied = [each for each in others.responses if _key(each) not in keys]  # the authorization has added them
        return replace(others, responses=(*(by_key[_key(each)] for each in resources), *denied))

    request.amend_answer(in_order)
    return None


def after_changes(present: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """The settings after changes of IncrementalAlterConfigs. A list without a value begins from Kafka's default."""
    values = dict(present)
    for operation, name, value in changes:
        if operation == DELETE:
            values.pop(name, None)
        elif operation in (APPEND, SUBTRACT):
            before = values.get(name, LIST_BROKER_CONFIGS.get(name, ""))
            values[name] = changed_list(before, value or "", is_append=operation == APPEND)
        else:
            values[name] = value or ""
    return values


def _key(resource: Any) -> tuple[int, str]:  # The argument is a request or an answer of either API.
    return resource.resource_type, resource.resource_name


def _bounds_problem(services: Services, broker: str, resource: Resource, after: After) -> str | None:
    """Why new settings of groups contradict others of this broker. Values that are no numbers are the controller's to
    refuse."""
    image, node_id = services.metadata.image, services.config.node_id
    wanted = after(image.broker_configs.get(broker, {}), resource)
    found = dict(image.broker_configs)
    found[broker] = wanted
    values = {**found.get("", {}), **found.get(str(node_id), {})}
    of_groups = {
        name: value
        for name, value in values.items()
        if name in GROUP_TIMES and broker_config_problem(name, value, ()) is None
    }
    if not GROUP_TIMES & wanted.keys():
        return None
    config = with_dynamic(services.config, of_groups)
    broken = config.groups.broken_bound() or config.shares.broken_bound()
    return None if broken is None else str(broken)


def _checked(
    services: Services, broker: str, resource: Resource, after: After
) -> str | Mapping[str, ListenerSecurity] | None:
    """Why this broker refuses the settings, in Kafka's words. None if it could use them. If files decide that: the
    listeners that name them."""
    node_id = services.config.node_id
    if not broker:
        return _bounds_problem(services, broker, resource, after)
    if not broker.removeprefix("-").isdecimal():
        return f"Node id must be an integer, but it is: {broker}"
    if int(broker) != node_id:
        return f"Unexpected broker id, expected {node_id}, but received {broker}"
    image = services.metadata.image
    before = image.broker_configs.get(broker, {})
    wanted = after(before, resource)
    changed = {name for name in {*before, *wanted} if before.get(name) != wanted.get(name)}
    listeners = {listener for name in changed if (listener := listener_of(name)) is not None}
    if not listeners and CORDONED not in changed:
        return _bounds_problem(services, broker, resource, after)
    used = {name: value for name, value in wanted.items() if name == CORDONED or listener_of(name) is not None}
    others = {name: value for name, value in broker_overrides(image, node_id).items() if name not in before}
    config = with_dynamic(services.config, {**others, **used})
    if CORDONED in changed and (problem := config.storage.problem()) is not None:
        return f"requirement failed: {problem.text}"
    found: dict[str, ListenerSecurity] = {}
    for name in sorted(listener.upper() for listener in listeners):
        if name not in config.listening.listeners:
            return f"there is no listener {name}; there is {', '.join(sorted(config.listening.listeners))}"
        try:
            found[name] = security_of(config, name)
        except SecurityError as error:
            return _invalid(name, error)
    return {name: security for name, security in found.items() if security.tls is not None} or None


def _store_problem(listeners: Mapping[str, ListenerSecurity]) -> str | None:
    """Reads the files that these listeners name. Runs in a thread."""
    for name, security in listeners.items():
        assert security.tls is not None
        try:
            server_context(security.tls)
        except SecurityError as error:
            return _invalid(name, error)
    return None


def _invalid(listener: str, error: SecurityError) -> str:
    return f"Invalid value for listener {listener}: {error}"
