"""Requests to streams groups (KIP-1071) as plain values, and comparable answers, for tests."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any

from broker.wire.errors import ErrorCode

PATIENCE_MS = 600_000  # so that no member is put out while a busy host takes its time
_LEFT_OUT = frozenset({"throttle_time"})


def info(name: str, partitions: int = 0, **configs: str) -> dict[str, Any]:
    listed = [{"key": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return {"name": name, "partitions": partitions, "replication_factor": 0, "topic_configs": listed}


def subtopology(name: str, *sources: str, **changes: Any) -> dict[str, Any]:
    return {
        "subtopology_id": name,
        "source_topics": list(sources),
        "source_topic_regex": [],
        "state_changelog_topics": [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "copartition_groups": [],
        **changes,
    }


def topology(*subtopologies: dict[str, Any], epoch: int = 0) -> dict[str, Any]:
    return {"epoch": epoch, "subtopologies": list(subtopologies)}


def stateful(prefix: str, source: str) -> dict[str, Any]:
    """As of a word count: one subtopology writes to a repartition topic, the next keeps counts."""
    repartition = info(f"{prefix}-repartition", cleanup_policy="delete")
    return topology(
        subtopology("0", source, repartition_sink_topics=[repartition["name"]]),
        subtopology(
            "1",
            repartition_source_topics=[repartition],
            state_changelog_topics=[info(f"{prefix}-changelog", cleanup_policy="compact")],
        ),
    )


def tasks(**by_subtopology: list[int]) -> list[dict[str, Any]]:
    return [{"subtopology_id": name[1:], "partitions": indexes} for name, indexes in by_subtopology.items()]


def heartbeat(group: str, member: str, epoch: int, **changes: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "endpoint_information_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": -1,
        "topology": None,
        "active_tasks": None,
        "standby_tasks": None,
        "warmup_tasks": None,
        "process_id": None,
        "user_endpoint": None,
        "client_tags": None,
        "task_offsets": None,
        "task_end_offsets": None,
        "shutdown_application": False,
        **changes,
    }


def joining(shape: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "rebalance_timeout": PATIENCE_MS,
        "topology": shape,
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "p1",
        "client_tags": [],
        **changes,
    }


def consumer_beat(group: str) -> dict[str, Any]:
    return {
        "group_id": group, "member_id": "c1", "member_epoch": 0, "instance_id": None, "rack_id": None,
        "rebalance_timeout": PATIENCE_MS, "subscribed_topic_names": ["in"], "subscribed_topic_regex": None,
        "server_assignor": None, "topic_partitions": [],
    }  # fmt: skip


def share_beat(group: str) -> dict[str, Any]:
    return {
        "group_id": group, "member_id": "AAAAAAAAAAAAAAAAAAAAAQ", "member_epoch": 0, "rack_id": None,
        "subscribed_topic_names": ["in"],
    }  # fmt: skip


def plain(value: Any) -> Any:
    """Comparable: arrays are sorted, and what a broker makes up is left out."""
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value) if each.name not in _LEFT_OUT}
    if isinstance(value, tuple):
        return sorted((plain(each) for each in value), key=str)
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value.name if isinstance(value, ErrorCode) else value
