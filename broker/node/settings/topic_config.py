"""The effective configuration of a topic: its overrides, and else this broker's dynamic and static settings.

Order, as in Kafka: the topic's override, the broker's own dynamic value, the cluster-wide dynamic value, the static
value of the properties file. In `TopicDefaults` the dynamic values are already applied. The names, checks and
defaults are in broker/controller/topic_configs.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.controller.image import MetadataImage
from broker.controller.topic_configs import TOPIC_SETTINGS
from broker.log.config import LogConfig
from broker.node.settings.sections.section import described
from broker.node.settings.sections.storage import TopicDefaults
from broker.node.settings.values import LONG_MAX
from broker.wire.compression import CodecId


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The settings that the broker uses, parsed. Times are in ms, sizes in bytes. None means no limit."""

    min_insync_replicas: int
    max_message_bytes: int
    compression: CodecId | None  # None: the codec of the producer stays
    compression_level: int | None
    has_log_append_time: bool
    timestamp_before_max_ms: int | None
    timestamp_after_max_ms: int | None
    is_compacted: bool
    is_deleted: bool  # cleanup.policy contains `delete`
    flush_ms: int | None
    log: LogConfig


def broker_overrides(image: MetadataImage, node_id: int) -> dict[str, str]:
    """Dynamic broker settings: the cluster-wide ones, overridden by this broker's own."""
    return {**image.broker_configs.get("", {}), **image.broker_configs.get(str(node_id), {})}


def topic_defaults(of_broker: TopicDefaults) -> Mapping[str, str]:
    """The value of each topic setting on this broker, without overrides."""
    if _latest and _latest[0][0] is of_broker:
        return _latest[0][1]
    values = described(of_broker)
    defaults = {
        name: setting.default if setting.broker_key is None else values[setting.broker_key]
        for name, setting in TOPIC_SETTINGS.items()
    }
    _latest[:] = [(of_broker, defaults)]
    return defaults


# The last settings and their result, because the same one is needed again for each partition.
_latest: list[tuple[TopicDefaults, Mapping[str, str]]] = []


def topic_config(of_broker: TopicDefaults, image: MetadataImage, topic: str) -> TopicConfig:
    return parse_topic_config({**topic_defaults(of_broker), **image.topic_configs.get(topic, {})})


def parse_topic_config(values: Mapping[str, str]) -> TopicConfig:
    def number(name: str) -> int:
        return int(values[name])

    def limit(name: str) -> int | None:
        """The limit. None for the largest long or a negative number, with which Kafka expresses "no limit"."""
        value = int(values[name])
        return None if value >= LONG_MAX or value < 0 else value

    policies = {item.strip() for item in values["cleanup.policy"].split(",")}
    codec, level = _compression(values)
    return TopicConfig(
        min_insync_replicas=number("min.insync.replicas"),
        max_message_bytes=number("max.message.bytes"),
        compression=codec,
        compression_level=level,
        has_log_append_time=values["message.timestamp.type"] == "LogAppendTime",
        timestamp_before_max_ms=limit("message.timestamp.before.max.ms"),
        timestamp_after_max_ms=limit("message.timestamp.after.max.ms"),
        is_compacted="compact" in policies,
        is_deleted="delete" in policies,
        flush_ms=limit("flush.ms"),
        log=LogConfig(
            segment_bytes=number("segment.bytes"),
            segment_ms=number("segment.ms"),
            segment_jitter_ms=number("segment.jitter.ms"),
            segment_index_bytes=number("segment.index.bytes"),
            index_interval_bytes=number("index.interval.bytes"),
            flush_messages=limit("flush.messages"),
            retention_ms=limit("retention.ms") if "delete" in policies else None,
            retention_bytes=limit("retention.bytes") if "delete" in policies else None,
            is_compacted="compact" in policies,
            min_cleanable_dirty_ratio=float(values["min.cleanable.dirty.ratio"]),
            min_compaction_lag_ms=number("min.compaction.lag.ms"),
            max_compaction_lag_ms=limit("max.compaction.lag.ms"),
            delete_retention_ms=number("delete.retention.ms"),
        ),
    )


def _compression(values: Mapping[str, str]) -> tuple[CodecId | None, int | None]:
    name = values["compression.type"]
    if name == "producer":
        return None, None
    if name == "uncompressed":
        return CodecId.NONE, None
    level = values.get(f"compression.{name}.level")
    return CodecId[name.upper()], None if level is None else int(level)
