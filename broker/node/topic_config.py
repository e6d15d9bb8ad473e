"""The effective configuration of a topic: its overrides over the broker's defaults.

Owns the list of topic settings that DescribeConfigs answers, with where each value came from. Of these the broker acts
on those in TopicConfig, of which the last three hold from the next opening of the log; the others are kept and shown
(retention and compaction come later).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.controller.image import MetadataImage
from broker.node.config import LONG_MAX, NodeConfig, key_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    min_insync_replicas: int
    max_message_bytes: int
    segment_bytes: int
    index_interval_bytes: int
    flush_messages: int | None  # None: the operating system decides
    has_log_append_time: bool  # message.timestamp.type (KIP-32)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    name: str
    value: str
    is_default: bool
    is_override: bool  # set on the topic itself


# topic setting -> (field of NodeConfig with its default, or None, Kafka's default)
_TOPIC_SETTINGS: dict[str, tuple[str | None, str]] = {
    "cleanup.policy": (None, "delete"),
    "compression.type": (None, "producer"),
    "delete.retention.ms": (None, "86400000"),
    "flush.messages": ("log_flush_interval_messages", ""),
    "index.interval.bytes": ("log_index_interval_bytes", ""),
    "max.message.bytes": ("message_max_bytes", ""),
    "message.timestamp.type": (None, "CreateTime"),
    "min.insync.replicas": ("min_insync_replicas", ""),
    "retention.bytes": ("log_retention_bytes", ""),
    "retention.ms": ("log_retention_ms", ""),
    "segment.bytes": ("log_segment_bytes", ""),
    "segment.index.bytes": ("log_index_size_max_bytes", ""),
    "unclean.leader.election.enable": ("unclean_leader_election_enable", ""),
}


def topic_config(config: NodeConfig, image: MetadataImage, topic: str) -> TopicConfig:
    overrides = image.topic_configs.get(topic, {})
    flush_messages = _number(overrides, "flush.messages", config.log_flush_interval_messages)
    return TopicConfig(
        min_insync_replicas=_number(overrides, "min.insync.replicas", config.min_insync_replicas),
        max_message_bytes=_number(overrides, "max.message.bytes", config.message_max_bytes),
        segment_bytes=_number(overrides, "segment.bytes", config.log_segment_bytes),
        index_interval_bytes=_number(overrides, "index.interval.bytes", config.log_index_interval_bytes),
        flush_messages=None if flush_messages >= LONG_MAX else flush_messages,
        has_log_append_time=overrides.get("message.timestamp.type") == "LogAppendTime",
    )


def _number(overrides: Mapping[str, str], name: str, default: int) -> int:
    text = overrides.get(name, "")
    return int(text) if text.isdigit() else default


def describe_topic(config: NodeConfig, image: MetadataImage, topic: str) -> list[ConfigEntry]:
    overrides = image.topic_configs.get(topic, {})
    defaults = config.described()
    entries = []
    for name in sorted({*_TOPIC_SETTINGS, *overrides}):
        field_name, fallback = _TOPIC_SETTINGS.get(name, (None, ""))
        default = fallback if field_name is None else defaults[key_of(field_name)]
        is_override = name in overrides
        value = overrides[name] if is_override else default
        entries.append(ConfigEntry(name=name, value=value, is_default=not is_override, is_override=is_override))
    return entries
