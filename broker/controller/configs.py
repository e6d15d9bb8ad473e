"""AlterConfigs and IncrementalAlterConfigs (KIP-339): settings of topics, brokers, groups and clients' metrics.

Pure functions from image and request to records and answer. Which broker settings may change while the broker runs is
in broker_configs.py; the others are refused by name, as Kafka does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from broker.controller import eligible, features
from broker.controller.broker_configs import (
    CORDONED,
    LIST_BROKER_CONFIGS,
    UNKNOWN_MAX,
    broker_config_problem,
    cluster_level_problem,
    is_unknown,
)
from broker.controller.config import ControllerConfig
from broker.controller.elections import UNCLEAN_ELECTION, changes_for_offline, leaders_allowed
from broker.controller.group_configs import GROUPS_MAX, group_config_problem
from broker.controller.image import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)
from broker.controller.outcome import Outcome
from broker.controller.records import ConfigRecord, MetadataRecord
from broker.controller.replay import replay
from broker.controller.setting_types import AlterConfigs, AlterConfigsResponse, AlteredConfig, ConfigChange
from broker.controller.topic_configs import TOPIC_SETTINGS, topic_config_problem
from broker.controller.topics import is_legal_name
from broker.wire.encoder import STRING_BYTES_MAX
from broker.wire.errors import ErrorCode


class _Refused(Exception):
    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


TOO_LONG = (
    f"The configuration value cannot be added because it exceeds the maximum value size of {STRING_BYTES_MAX} bytes."
)


def alter_configs(image: MetadataImage, request: AlterConfigs, *, config: ControllerConfig) -> Outcome:
    records: list[MetadataRecord] = []
    answers: list[AlteredConfig] = []
    made: Counter[int] = Counter()  # how many resources this request creates, by type
    for change in request.resources:
        try:
            values = _new_values(image, change, config)
            if change.resource_name not in image.configs_of(change.resource_type) and any(
                value is not None for value in values.values()
            ):
                made[change.resource_type] += 1
                _check_room(image, change.resource_type, made)
        except _Refused as refused:
            answers.append(_altered(change, refused.error_code, str(refused)))
            continue
        records += [
            ConfigRecord(resource_type=change.resource_type, resource_name=change.resource_name, name=name, value=value)
            for name, value in values.items()
        ]
        answers.append(_altered(change, ErrorCode.none, None))
    if any(isinstance(record, ConfigRecord) and record.name == UNCLEAN_ELECTION for record in records):
        draft = replay(image, tuple(records), offset=image.offset + 1, epoch=image.epoch)
        unclean = config.unclean_leader_election_enable
        records += changes_for_offline(draft, leaders_allowed(draft), unclean_default=unclean)
    records += eligible.clearing_records(image, records)
    response = AlterConfigsResponse(error_code=ErrorCode.none, resources=tuple(answers))
    return Outcome(response=response, records=() if request.validate_only else tuple(records))


def _altered(change: ConfigChange, error_code: int, message: str | None) -> AlteredConfig:
    return AlteredConfig(
        resource_type=change.resource_type,
        resource_name=change.resource_name,
        error_code=error_code,
        error_message=message,
    )


def _new_values(image: MetadataImage, change: ConfigChange, config: ControllerConfig) -> dict[str, str | None]:
    """Every override that the change sets or removes (None). The values are checked before the existence of the
    resource, as in Kafka."""
    is_there = change.resource_type != TOPIC_RESOURCE or change.resource_name in image.topics
    present = _present(image, change) if is_there else {}
    values: dict[str, str | None] = dict(change.changes)
    for name, items in (*change.appends.items(), *change.subtracts.items()):
        default = _list_default(change.resource_type, name, config)
        if default is None:
            raise _Refused(ErrorCode.invalid_config, _no_list(change, name, config))
        values[name] = changed_list(present.get(name, default), items, is_append=name in change.appends)
    if change.resource_type == TOPIC_RESOURCE:
        _check_topic_name(change.resource_name)
    if change.replaces_all:
        values = {**dict.fromkeys(present), **values}
    _check_values(change, values, present, config)
    if not is_there:
        _present(image, change)
    for name, value in values.items():
        problem = eligible.change_problem(image, change.resource_type, change.resource_name, name, value)
        if problem:
            raise _Refused(ErrorCode.invalid_config, problem)
        if change.resource_type == BROKER_RESOURCE and name == CORDONED and not features.may_cordon(image):
            raise _Refused(ErrorCode.invalid_config, features.CANNOT_CORDON)
    return {name: value for name, value in values.items() if value is not None or name in present}


def _list_default(resource_type: int, name: str, config: ControllerConfig) -> str | None:
    """What a list has if it is not set; None if the setting is no list."""
    if resource_type == BROKER_RESOURCE:
        return LIST_BROKER_CONFIGS.get(name)
    setting = TOPIC_SETTINGS.get(name) if resource_type == TOPIC_RESOURCE else None
    return config.topic_defaults.get(name, setting.default) if setting is not None and setting.is_list else None


def _no_list(change: ConfigChange, name: str, config: ControllerConfig) -> str:
    is_append = name in change.appends
    if change.resource_type != BROKER_RESOURCE:
        return f"Can't {'APPEND' if is_append else 'SUBTRACT'} to key {name} because its type is not LIST."
    if is_unknown(name, config.broker_settings):
        return f"Unknown config name: {name}"
    return f"Config value {'append' if is_append else 'subtract'} is not allowed for config key: {name}"


def _check_values(
    change: ConfigChange, values: Mapping[str, str | None], present: Mapping[str, str], config: ControllerConfig
) -> None:
    """As in Kafka, a request may delete any name, whether it is set or not."""
    for value in values.values():
        if value is not None and len(value.encode()) > STRING_BYTES_MAX:  # appends make it longer than a request can
            raise _Refused(ErrorCode.invalid_config, TOO_LONG)
    if change.resource_type == BROKER_RESOURCE:
        _check_broker_values(change.resource_name, values, present, config)
    elif change.resource_type == GROUP_RESOURCE:
        problem = group_config_problem(values, present, config.group_values)
        if problem is not None:
            raise _Refused(ErrorCode.invalid_config, problem)
    else:
        for name, value in values.items():
            problem = None if value is None else topic_config_problem(name, value)
            if problem is not None:
                raise _Refused(ErrorCode.invalid_config, problem)


def _check_broker_values(
    broker: str, values: Mapping[str, str | None], present: Mapping[str, str], config: ControllerConfig
) -> None:
    """A setting of a broker that is refused is an invalid request, as in Kafka."""
    for name, value in values.items():
        problem = None if value is None else broker_config_problem(name, value, config.broker_settings)
        if problem is not None:
            raise _Refused(ErrorCode.invalid_request, problem)
    problem = cluster_level_problem(values) if not broker else None
    if problem is not None:
        raise _Refused(ErrorCode.invalid_request, problem)
    after = {**present, **values}
    unknown = [name for name, value in after.items() if value is not None and is_unknown(name, config.broker_settings)]
    if len(unknown) > UNKNOWN_MAX and len(after) > len(present):
        raise _Refused(ErrorCode.policy_violation, f"At most {UNKNOWN_MAX} settings are kept that are not known")


def _check_topic_name(name: str) -> None:
    if not name:
        raise _Refused(ErrorCode.invalid_request, "Default topic resources are not allowed.")
    if not is_legal_name(name):
        raise _Refused(ErrorCode.invalid_topic_exception, f"Topic name {name!r} is illegal")


def changed_list(value: str, items: str, *, is_append: bool) -> str:
    """The list setting `value` with the `items` of an APPEND, or without those of a SUBTRACT."""
    before, given = _items(value), _given(items)
    if is_append:
        return ",".join([*before, *(item for item in given if item not in before)])
    return ",".join(item for item in before if item not in given)


def _items(value: str) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()]


def _given(value: str) -> list[str]:
    """Split the value as Java does. Kafka uses this here. Empty parts at the end are dropped; "" gives one part."""
    if not value:
        return [""]
    parts = value.split(",")
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _present(image: MetadataImage, change: ConfigChange) -> dict[str, str]:
    """The present overrides of the resource. Refuses a resource that does not exist or cannot have settings."""
    name, kind = change.resource_name, change.resource_type
    kept = image.configs_of(kind)
    if kind == TOPIC_RESOURCE:
        if name not in image.topics:
            raise _Refused(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")
    elif kind == BROKER_RESOURCE:
        if name not in {"", *(str(broker_id) for broker_id in image.brokers)}:
            raise _Refused(ErrorCode.invalid_request, f"No broker '{name}'")
    elif kind in _FREELY_NAMED:
        if not name:
            raise _Refused(ErrorCode.invalid_request, _FREELY_NAMED[kind][1])
    else:
        raise _Refused(ErrorCode.invalid_request, f"Configs of resource type {kind} are not kept")
    return dict(kept.get(name, {}))


def _check_room(image: MetadataImage, kind: int, made: Mapping[int, int]) -> None:
    most = _FREELY_NAMED[kind][0] if kind in _FREELY_NAMED else None
    if most is not None and len(image.configs_of(kind)) + made[kind] > most:
        raise _Refused(ErrorCode.policy_violation, f"Settings of at most {most} such resources are kept")


# Resources that exist as soon as they have settings: how many there may be, and the error for one without a name.
_FREELY_NAMED: Mapping[int, tuple[int, str]] = {
    GROUP_RESOURCE: (GROUPS_MAX, "Default group resources are not allowed."),
}
