"""Every topic setting of Kafka 4.3: what counts as a valid value, its default, and what this broker does with it.

This is the one table behind CreateTopics, IncrementalAlterConfigs, DescribeConfigs and docs/reference/settings.md.
There are three kinds of settings:

- HONOURED: the broker acts on it.
- WITHOUT_EFFECT: it is accepted, and its note says why nothing changes.
- REFUSED: only the value that asks for nothing is accepted. Any other value is an error.

tests/broker_settings compares the names with those of Apache Kafka's own jars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from broker.controller.config_checks import (
    INT32_MAX,
    INT64_MAX,
    Boolean,
    Check,
    Choice,
    Fraction,
    GzipLevel,
    IntegerRange,
)

# Kafka's minimum is 1 MiB (KIP-1030). Smaller segments show rolling and retention in a short run
SEGMENT_BYTES_MIN = 1024


class Effect(Enum):
    HONOURED = "honoured"
    WITHOUT_EFFECT = "accepted without effect"
    REFUSED = "refused"


class ConfigType(Enum):
    """The numbers that DescribeConfigs uses."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSetting:
    check: Check
    kind: ConfigType
    default: str  # Kafka's default, for settings without a broker setting behind them
    broker_key: str | None = None  # the broker setting that is its default
    effect: Effect = Effect.HONOURED
    note: str = ""

    @property
    def is_list(self) -> bool:
        return self.kind is ConfigType.LIST


_BOOLEAN = Boolean()
_LONG = IntegerRange(low=0, high=INT64_MAX)
_LONG_OR_UNLIMITED = IntegerRange(low=-1, high=INT64_MAX)
_LONG_OR_INHERITED = IntegerRange(low=-2, high=INT64_MAX)
_INT = IntegerRange(low=0, high=INT32_MAX)
_NO_TIERS = "there is no tiered storage here"
NO_THROTTLES = "there are no replication throttles (KIP-73)"


def _honoured(
    check: Check, kind: ConfigType, default: str, broker_key: str | None = None, note: str = ""
) -> TopicSetting:
    return TopicSetting(check=check, kind=kind, default=default, broker_key=broker_key, note=note)


def _idle(check: Check, kind: ConfigType, default: str, broker_key: str | None, note: str) -> TopicSetting:
    return TopicSetting(
        check=check, kind=kind, default=default, broker_key=broker_key, effect=Effect.WITHOUT_EFFECT, note=note
    )


_NO_TIER = TopicSetting(
    check=Choice(allowed=("false",)), kind=ConfigType.BOOLEAN, default="false", effect=Effect.REFUSED, note=_NO_TIERS
)
_NO_THROTTLE = TopicSetting(
    check=Choice(allowed=("",)), kind=ConfigType.LIST, default="", effect=Effect.REFUSED, note=NO_THROTTLES
)


TOPIC_SETTINGS: Mapping[str, TopicSetting] = {
    "cleanup.policy": _honoured(
        Choice(allowed=("compact", "delete"), several=True), ConfigType.LIST, "delete", "log.cleanup.policy"
    ),
    "compression.gzip.level": _honoured(
        GzipLevel(), ConfigType.INT, "-1", "compression.gzip.level", "0 is refused, as in Kafka"
    ),
    "compression.lz4.level": _honoured(IntegerRange(low=1, high=17), ConfigType.INT, "9", "compression.lz4.level"),
    "compression.type": _honoured(
        Choice(allowed=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
        ConfigType.STRING,
        "producer",
        "compression.type",
        "a batch of another codec is compressed anew by the leader",
    ),
    "compression.zstd.level": _honoured(
        IntegerRange(low=-131072, high=22), ConfigType.INT, "3", "compression.zstd.level"
    ),
    "delete.retention.ms": _honoured(_LONG, ConfigType.LONG, "86400000", "log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": _idle(
        _LONG,
        ConfigType.LONG,
        "60000",
        "log.segment.delete.delay.ms",
        "files go at once: a read here never holds a file after it returned, so nothing needs the delay",
    ),
    "flush.messages": _honoured(
        IntegerRange(low=1, high=INT64_MAX), ConfigType.LONG, str(INT64_MAX), "log.flush.interval.messages"
    ),
    "flush.ms": _honoured(_LONG, ConfigType.LONG, str(INT64_MAX), "log.flush.interval.ms"),
    "follower.replication.throttled.replicas": _NO_THROTTLE,
    "index.interval.bytes": _honoured(_INT, ConfigType.INT, "4096", "log.index.interval.bytes"),
    "leader.replication.throttled.replicas": _NO_THROTTLE,
    "local.retention.bytes": _idle(_LONG_OR_INHERITED, ConfigType.LONG, "-2", "log.local.retention.bytes", _NO_TIERS),
    "local.retention.ms": _idle(_LONG_OR_INHERITED, ConfigType.LONG, "-2", "log.local.retention.ms", _NO_TIERS),
    "max.compaction.lag.ms": _honoured(
        IntegerRange(low=1, high=INT64_MAX), ConfigType.LONG, str(INT64_MAX), "log.cleaner.max.compaction.lag.ms"
    ),
    "max.message.bytes": _honoured(_INT, ConfigType.INT, "1048588", "message.max.bytes"),
    "message.timestamp.after.max.ms": _honoured(
        _LONG, ConfigType.LONG, "3600000", "log.message.timestamp.after.max.ms"
    ),
    "message.timestamp.before.max.ms": _honoured(
        _LONG, ConfigType.LONG, str(INT64_MAX), "log.message.timestamp.before.max.ms"
    ),
    "message.timestamp.type": _honoured(
        Choice(allowed=("CreateTime", "LogAppendTime")), ConfigType.STRING, "CreateTime", "log.message.timestamp.type"
    ),
    "min.cleanable.dirty.ratio": _honoured(Fraction(), ConfigType.DOUBLE, "0.5", "log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": _honoured(_LONG, ConfigType.LONG, "0", "log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": _honoured(IntegerRange(low=1, high=INT32_MAX), ConfigType.INT, "1", "min.insync.replicas"),
    "preallocate": _idle(
        _BOOLEAN,
        ConfigType.BOOLEAN,
        "false",
        "log.preallocate",
        "files grow as they are written; the file systems this runs on gain nothing from reserving them",
    ),
    "remote.log.copy.disable": _NO_TIER,
    "remote.log.delete.on.disable": _NO_TIER,
    "remote.storage.enable": _NO_TIER,
    "retention.bytes": _honoured(_LONG_OR_UNLIMITED, ConfigType.LONG, "-1", "log.retention.bytes"),
    "retention.ms": _honoured(_LONG_OR_UNLIMITED, ConfigType.LONG, "604800000", "log.retention.ms"),
    "segment.bytes": _honoured(
        IntegerRange(low=SEGMENT_BYTES_MIN, high=INT32_MAX),
        ConfigType.INT,
        "1073741824",
        "log.segment.bytes",
        "from 1 KiB (Kafka: 1 MiB), so that rolling can be seen in a short run",
    ),
    "segment.index.bytes": _honoured(
        IntegerRange(low=4, high=INT32_MAX), ConfigType.INT, "10485760", "log.index.size.max.bytes"
    ),
    "segment.jitter.ms": _honoured(_LONG, ConfigType.LONG, "0", "log.roll.jitter.ms"),
    "segment.ms": _honoured(IntegerRange(low=1, high=INT64_MAX), ConfigType.LONG, "604800000", "log.roll.ms"),
    "unclean.leader.election.enable": _honoured(
        _BOOLEAN, ConfigType.BOOLEAN, "false", "unclean.leader.election.enable"
    ),
}


def topic_config_problem(name: str, value: str | None) -> str | None:
    """What is wrong with this override, for the error message; None if it is fine."""
    setting = TOPIC_SETTINGS.get(name)
    if setting is None:
        return f"Unknown topic config name: {name}"
    if value is None:
        return f"Null value not supported for topic config: {name}"
    problem = setting.check.problem(name, value)
    if problem is None or setting.effect is not Effect.REFUSED:
        return problem
    return f"{problem}: {setting.note}"
