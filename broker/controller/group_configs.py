"""Settings of single groups (KIP-848, KIP-932): which values are valid, also within the broker's bounds.

This is the one table behind IncrementalAlterConfigs, DescribeConfigs and docs/reference/settings.md. The names are
those of Kafka 4.3.
Shown by tests/broker_controller/test_controller_group_configs.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.controller.config_checks import INT32_MAX, Boolean, Check, Choice, IntegerRange, OffsetReset
from broker.controller.topic_configs import ConfigType

GROUPS_MAX = 10_000  # groups with settings of their own; every coordinator keeps all of them
SESSION_TIMEOUT, HEARTBEAT_INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
SHARE_SESSION_TIMEOUT, SHARE_HEARTBEAT_INTERVAL = "share.session.timeout.ms", "share.heartbeat.interval.ms"
SHARE_OFFSET_RESET, SHARE_ISOLATION = "share.auto.offset.reset", "share.isolation.level"
SHARE_DELIVERIES, SHARE_LOCKS = "share.delivery.count.limit", "share.partition.max.record.locks"
SHARE_LOCK_DURATION, SHARE_RENEW = "share.record.lock.duration.ms", "share.renew.acknowledge.enable"
ASSIGNMENT_INTERVAL, SHARE_ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms", "share.assignment.interval.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSetting:
    check: Check
    default: str  # Kafka's default, for a setting whose broker setting this broker does not have
    kind: ConfigType = ConfigType.INT
    broker_key: str | None = None  # the broker setting that is its default
    low_key: str | None = None  # the broker settings that bound it
    high_key: str | None = None


def _time(name: str, default: int, least: int = 1) -> GroupSetting:
    """A number between `group.KIND.min.REST` and `group.KIND.max.REST`."""
    kind, _, rest = name.partition(".")
    return GroupSetting(
        check=IntegerRange(low=least, high=INT32_MAX),
        default=str(default),
        broker_key=f"group.{name}",
        low_key=f"group.{kind}.min.{rest}",
        high_key=f"group.{kind}.max.{rest}",
    )


GROUP_SETTINGS: Mapping[str, GroupSetting] = {
    ASSIGNMENT_INTERVAL: _time(ASSIGNMENT_INTERVAL, 1_000, 0),
    HEARTBEAT_INTERVAL: _time(HEARTBEAT_INTERVAL, 5_000),
    SESSION_TIMEOUT: _time(SESSION_TIMEOUT, 45_000),
    SHARE_ASSIGNMENT_INTERVAL: _time(SHARE_ASSIGNMENT_INTERVAL, 1_000, 0),
    SHARE_OFFSET_RESET: GroupSetting(check=OffsetReset(), default="latest", kind=ConfigType.STRING),
    SHARE_DELIVERIES: _time(SHARE_DELIVERIES, 5, 2),
    SHARE_HEARTBEAT_INTERVAL: _time(SHARE_HEARTBEAT_INTERVAL, 5_000),
    SHARE_ISOLATION: GroupSetting(
        check=Choice(allowed=("read_committed", "read_uncommitted")),
        default="read_uncommitted",
        kind=ConfigType.STRING,
    ),
    SHARE_LOCKS: _time(SHARE_LOCKS, 2_000, 100),
    SHARE_LOCK_DURATION: _time(SHARE_LOCK_DURATION, 30_000, 1_000),
    SHARE_RENEW: GroupSetting(check=Boolean(), default="true", kind=ConfigType.BOOLEAN),
    SHARE_SESSION_TIMEOUT: _time(SHARE_SESSION_TIMEOUT, 45_000),
}
# Kafka's defaults of the broker settings that bound these settings. If this broker has such a setting, the caller
# passes its value.
KAFKA_BOUNDS: Mapping[str, int] = {
    **{
        f"group.{kind}.{bound}": value
        for kind in ("consumer", "share")
        for bound, value in (
            ("min.session.timeout.ms", 45_000),
            ("max.session.timeout.ms", 60_000),
            ("min.heartbeat.interval.ms", 5_000),
            ("max.heartbeat.interval.ms", 15_000),
            ("min.assignment.interval.ms", 0),
            ("max.assignment.interval.ms", 15_000),
        )
    },
    "group.share.min.delivery.count.limit": 2,
    "group.share.max.delivery.count.limit": 10,
    "group.share.min.partition.max.record.locks": 100,
    "group.share.max.partition.max.record.locks": 4_000,
    "group.share.min.record.lock.duration.ms": 15_000,
    "group.share.max.record.lock.duration.ms": 60_000,
}


def group_config_problem(
    changes: Mapping[str, str | None], present: Mapping[str, str], broker: Mapping[str, int]
) -> str | None:
    """Why the settings of a group are refused. The texts and the order of the checks are Kafka's.

    `changes`: new values, None removes one. `present`: the settings that the group has. `broker`: values of broker
    settings, where they differ from Kafka's defaults.
    """
    given = {name: value for name, value in changes.items() if value is not None}
    for name in given:
        if name not in GROUP_SETTINGS:
            return f"Unknown group config name: {name}"
    for name, value in given.items():
        problem = GROUP_SETTINGS[name].check.problem(name, value)
        if problem is not None:
            return problem
    for name, value in given.items():
        problem = _bounds_problem(name, value, broker)
        if problem is not None:
            return problem
    after = {name: value for name, value in {**present, **changes}.items() if value is not None}
    for kind in ("consumer", "share"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if {session, heartbeat} & given.keys() and _number(after, session, broker) <= _number(after, heartbeat, broker):
            return f"{session} must be greater than {heartbeat}"
    return None


def _bounds_problem(name: str, value: str, broker: Mapping[str, int]) -> str | None:
    setting = GROUP_SETTINGS[name]
    if setting.low_key is not None and int(value) < broker.get(setting.low_key, KAFKA_BOUNDS[setting.low_key]):
        return f"{name} must be greater than or equal to {setting.low_key}"
    if setting.high_key is not None and int(value) > broker.get(setting.high_key, KAFKA_BOUNDS[setting.high_key]):
        return f"{name} must be less than or equal to {setting.high_key}"
    return None


def _number(values: Mapping[str, str], name: str, broker: Mapping[str, int]) -> int:
    setting = GROUP_SETTINGS[name]
    assert setting.broker_key is not None
    return int(values[name]) if name in values else broker.get(setting.broker_key, int(setting.default))
