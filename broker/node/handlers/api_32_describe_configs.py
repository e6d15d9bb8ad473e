"""DescribeConfigs (key 32), versions 1-4: the effective settings, and the source of each value.

On request it adds synonyms (values that would be in effect otherwise) and documentation (KIP-569). The documentation
says what this broker does with the setting, as docs/reference/settings.md does. It describes topics, this broker,
and groups. Not done: loggers, subscriptions of clients' metrics (KIP-714), and settings of another broker (refused: a
client asks that broker itself).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING
from typing import TYPE_CHECKING

from broker.controller.broker_configs import DYNAMIC_BROKER_CONFIGS, listener_of
from broker.controller.group_configs import GROUP_SETTINGS
from broker.controller.image import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    LOGGER_RESOURCE,
    TOPIC_RESOURCE,
)
from broker.controller.topic_configs import TOPIC_SETTINGS, ConfigType, Effect
from broker.controller.topics import is_legal_name
from broker.kafka_settings import kafka_settings
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.node.net.time_slices import in_turns
from broker.node.settings.broker_settings import support_of
from broker.node.settings.config import SETTINGS
from broker.node.settings.sections.security import is_sensitive
from broker.node.settings.security import LISTENER
from broker.node.settings.values import text_of
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import describe_configs as shapes

DOCUMENTATION_SINCE_VERSION = 3
RESOURCE_TYPES = (
    TOPIC_RESOURCE,
    BROKER_RESOURCE,
    LOGGER_RESOURCE,
    GROUP_RESOURCE,
)
# These settings of a broker have no default of their own. Instead the same setting in hours is in effect, or none.
_NO_DEFAULT = frozenset({"log.flush.interval.ms", "log.retention.ms", "log.roll.jitter.ms", "log.roll.ms"})
# In Apache Kafka this setting can be set only at run time. It has no default there.
_RUN_TIME_ONLY = "replica.alter.log.dirs.io.max.bytes.per.second"
SOURCE_TOPIC, SOURCE_DYNAMIC_BROKER, SOURCE_DYNAMIC_DEFAULT, SOURCE_STATIC, SOURCE_DEFAULT = 1, 2, 3, 4, 5
SOURCE_GROUP = 8
UNKNOWN_TYPE = 0
_TYPES = {"int": ConfigType.LONG, "bool": ConfigType.BOOLEAN, "float": ConfigType.DOUBLE}
_DEFAULTS = {key: each.default for key, each in SETTINGS.items()}
_KINDS = {key: _TYPES.get(str(each.field.type), ConfigType.STRING) for key, each in SETTINGS.items()} | {
    name: ConfigType[setting.kind.upper()] for name, setting in kafka_settings("broker").items()
}


def handle(services: Services, request: AnyRequest[shapes.DescribeConfigsRequest]) -> None:
    resources = request.message.resources
    are_types = all(each.resource_type in RESOURCE_TYPES for each in resources)
    results: list[shapes.DescribeConfigsResultFields] = []

    def describe_all() -> Iterator[None]:
        for each in resources:  # a resource with an unknown type makes the whole request fail, as in Kafka
            results.append(_describe(services, request, each) if are_types else _refused(each))
            yield

    def done() -> None:
        request.respond(response(ApiKey.DESCRIBE_CONFIGS, request.version, results=results))

    in_turns(request, describe_all(), done)


def _refused(resource: shapes.DescribeConfigsResource) -> shapes.DescribeConfigsResultFields:
    return {
        "error_code": ErrorCode.invalid_request,
        "error_message": f"the request names a resource type that is none; there is: {RESOURCE_TYPES}",
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": [],
    }


def _describe(
    services: Services, request: AnyRequest[shapes.DescribeConfigsRequest], resource: shapes.DescribeConfigsResource
) -> shapes.DescribeConfigsResultFields:
    error, message, name = ErrorCode.none, None, resource.resource_name
    with_synonyms: bool = request.message.include_synonyms
    configs: list[shapes.DescribeConfigsResourceResultFields] = []
    kind = resource.resource_type
    if kind == TOPIC_RESOURCE:
        if not is_legal_name(name):
            error, message = ErrorCode.invalid_topic_exception, f"Topic name {name!r} is illegal"
        elif name in services.metadata.image.topics:
            configs = [_topic_entry(services, name, key, with_synonyms) for key in sorted(TOPIC_SETTINGS)]
        else:
            error = ErrorCode.unknown_topic_or_partition
    elif kind == BROKER_RESOURCE and name in ("", str(services.config.node_id)):
        keys = sorted(_DEFAULTS) if name else sorted(services.metadata.image.broker_configs.get("", {}))
        configs = [_broker_entry(services, key, with_synonyms, is_default=not name) for key in keys if key in _DEFAULTS]
        configs += _unknown_entries(services, with_synonyms, is_default=not name)
        if name:
            configs += _listener_entries(services, with_synonyms)
    elif kind == GROUP_RESOURCE and name:
        configs = [_group_entry(services, name, key, with_synonyms) for key in GROUP_SETTINGS]
    elif kind == GROUP_RESOURCE:
        error, message = ErrorCode.invalid_request, "Group name must not be empty"
    else:
        error = ErrorCode.invalid_request
        message = f"resource type {kind} {name!r} is not known to this broker"
    if request.version >= DOCUMENTATION_SINCE_VERSION and request.message.include_documentation:
        configs = [{**config, "documentation": _documentation(kind, str(config["name"]))} for config in configs]
    wanted = resource.configuration_keys
    return {
        "error_code": error,
        "error_message": message,
        "resource_type": resource.resource_type,
        "resource_name": name,
        "configs": [config for config in configs if not wanted or config["name"] in wanted],
    }


def _broker_sources(services: Services, key: str, *, is_default: bool = False) -> list[tuple[int, str]]:
    """(source, value) of a broker setting, the one in effect first. With `is_default`, only the cluster-wide values."""
    image, config = services.metadata.image, services.config
    found: list[tuple[int, str]] = []
    own = {} if is_default else image.broker_configs.get(str(config.node_id), {})
    if key in own:
        found.append((SOURCE_DYNAMIC_BROKER, own[key]))
    if key in image.broker_configs.get("", {}):
        found.append((SOURCE_DYNAMIC_DEFAULT, image.broker_configs[""][key]))
    if not is_default:
        value = SETTINGS[key].value_in(config)
        if key in config.given or value != _DEFAULTS[key]:
            found.append((SOURCE_STATIC, text_of(value)))
        if _DEFAULTS[key] is not MISSING:
            found.append((SOURCE_DEFAULT, text_of(_DEFAULTS[key])))
    return found


def _topic_entry(
    services: Services, topic: str, key: str, with_synonyms: bool
) -> shapes.DescribeConfigsResourceResultFields:
    setting = TOPIC_SETTINGS[key]
    overrides = services.metadata.image.topic_configs.get(topic, {})
    found = [(SOURCE_TOPIC, overrides[key], key)] if key in overrides else []
    broker_key = setting.broker_key
    if broker_key is None:
        synonyms = list(found)
        found.append((SOURCE_DEFAULT, setting.default, key))
    else:
        found += [(source, value, broker_key) for source, value in _broker_sources(services, broker_key)]
        synonyms = [each for each in found if each[0] != SOURCE_DEFAULT or broker_key not in _NO_DEFAULT]
    return _entry(key, found, setting.kind, read_only=False, synonyms=synonyms if with_synonyms else [])


def _broker_entry(
    services: Services, key: str, with_synonyms: bool, *, is_default: bool
) -> shapes.DescribeConfigsResourceResultFields:
    found = [(source, value, key) for source, value in _broker_sources(services, key, is_default=is_default)]
    read_only = key not in DYNAMIC_BROKER_CONFIGS
    synonyms = [each for each in found if each[0] != SOURCE_DEFAULT or key != _RUN_TIME_ONLY]
    told = _entry(key, found, _KINDS[key], read_only=read_only, synonyms=synonyms if with_synonyms else [])
    if _KINDS[key] is ConfigType.BOOLEAN and not is_default and told["value"] is not None:
        told["value"] = told["value"].strip().lower()  # the synonyms stay as they were given
    return told


def _unknown_entries(
    services: Services, with_synonyms: bool, *, is_default: bool
) -> Iterator[shapes.DescribeConfigsResourceResultFields]:
    """Values that were set at run time under a name that is no setting. As in Kafka, such a value is not shown to
    anybody."""
    image = services.metadata.image
    own = {} if is_default else image.broker_configs.get(str(services.config.node_id), {})
    for_all = image.broker_configs.get("", {})
    for key in sorted({**for_all, **own}):
        if key in _DEFAULTS or key.startswith(LISTENER):
            continue
        found = [(SOURCE_DYNAMIC_BROKER, own[key], key)] if key in own else []
        if key in for_all:
            found.append((SOURCE_DYNAMIC_DEFAULT, for_all[key], key))
        synonyms = found if with_synonyms else []
        yield {
            **_entry(key, found, ConfigType.STRING, read_only=True, synonyms=[]),
            "value": None,
            "is_sensitive": True,
            "config_type": UNKNOWN_TYPE,
            "synonyms": [{"name": name, "value": None, "source": source} for source, _, name in synonyms],
        }


def _group_entry(
    services: Services, group: str, key: str, with_synonyms: bool
) -> shapes.DescribeConfigsResourceResultFields:
    setting = GROUP_SETTINGS[key]
    overrides = services.metadata.image.group_configs.get(group, {})
    found = [(SOURCE_GROUP, overrides[key], key)] if key in overrides else []
    if setting.broker_key in _DEFAULTS:
        sources = _broker_sources(services, setting.broker_key)
        found += [(source, value, setting.broker_key) for source, value in sources]
    else:
        found.append((SOURCE_DEFAULT, setting.default, setting.broker_key or key))
    return _entry(key, found, setting.kind, read_only=False, synonyms=found if with_synonyms else [])


def _listener_entries(services: Services, with_synonyms: bool) -> Iterator[shapes.DescribeConfigsResourceResultFields]:
    """The settings that belong to one listener: `listener.name.NAME.KEY`."""
    static = services.config.listener_overrides
    overrides = services.metadata.image.broker_configs.get(str(services.config.node_id), {})
    dynamic = {key: value for key, value in overrides.items() if listener_of(key) is not None}
    for key in sorted({**static, **dynamic}):
        found = [(SOURCE_DYNAMIC_BROKER, dynamic[key], key)] if key in dynamic else []
        if key in static:
            found.append((SOURCE_STATIC, static[key], key))
        synonyms = found if with_synonyms else []
        yield _entry(key, found, ConfigType.STRING, read_only=listener_of(key) is None, synonyms=synonyms)


def _entry(
    key: str,
    found: list[tuple[int, str, str]],
    kind: ConfigType,
    *,
    read_only: bool,
    synonyms: list[tuple[int, str, str]],
) -> shapes.DescribeConfigsResourceResultFields:
    source, value, _ = found[0]
    is_secret = is_sensitive(key)
    return {
        "name": key,
        "value": None if is_secret else value,
        "read_only": read_only,
        "config_source": source,
        "is_sensitive": is_secret,
        "synonyms": [
            {"name": name, "value": None if is_secret else text, "source": origin} for origin, text, name in synonyms
        ],
        "config_type": kind.value,
        "documentation": None,
    }


def _documentation(resource_type: int, key: str) -> str | None:
    """Apache Kafka's default, and what this broker does with the setting."""
    if resource_type == GROUP_RESOURCE:
        return f"Apache Kafka's default {GROUP_SETTINGS[key].default}. Here: {Effect.HONOURED.value}."
    scope = "topic" if resource_type == TOPIC_RESOURCE else "broker"
    known = kafka_settings(scope).get(key)
    origin = f"Apache Kafka's type {known.kind}, default {known.default or 'empty'}" if known else "Not of Apache Kafka"
    setting = TOPIC_SETTINGS[key] if scope == "topic" else support_of(key)
    if setting is None and key not in _DEFAULTS and not key.startswith(LISTENER):
        return None  # the setting is unknown, and its value is kept without use
    effect, note = (setting.effect, setting.note) if setting is not None else (Effect.HONOURED, "")
    return f"{origin}. Here: {effect.value}{f' ({note})' if note else ''}."
