"""Heartbeats of streams groups (KIP-1071). Drawn field by field nearly all would be refused for their form, so most are
made sound. No internal topics are asked for: until they are there, it depends on the moment what a broker answers."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from tests.differential.values import Names

SOUND_SHARE, JOIN = 0.8, 0
MEMBERS = ("m1", "m2", "m3")


def streams_heartbeat(values: Mapping[str, Any], names: Names, rng: random.Random) -> dict[str, Any]:
    changed = {**values, "member_id": rng.choice(MEMBERS), "rebalance_timeout": 600_000}
    if rng.random() > SOUND_SHARE:
        return _without_internal_topics(changed)
    changed |= {"instance_id": None, "rack_id": rng.choice((None, "r")), "task_offsets": None, "task_end_offsets": None}
    changed |= {"warmup_tasks": [], "topology": None}
    if changed["member_epoch"] == JOIN:
        changed |= {"active_tasks": [], "standby_tasks": [], "topology": _topology(names, rng)}
    elif rng.random() < 0.3:
        changed |= dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks"))
    else:
        changed |= {"active_tasks": _tasks(rng), "standby_tasks": []}
    if rng.random() < 0.9:
        changed["shutdown_application"] = False
    return changed


def _topology(names: Names, rng: random.Random) -> dict[str, Any]:
    """Mostly the same one for all members of a group, as it is in an application."""
    first, second = names.topics
    sources = rng.choice(([first], [first], [first], [second], [first, second]))
    subtopologies = [_subtopology(str(number), source) for number, source in enumerate(sources)]
    return {"epoch": rng.choice((0, 0, 0, 0, 1)), "subtopologies": subtopologies}


def _subtopology(subtopology_id: str, source: str) -> dict[str, Any]:
    return {
        "subtopology_id": subtopology_id, "source_topics": [source], "source_topic_regex": [],
        "state_changelog_topics": [], "repartition_sink_topics": [], "repartition_source_topics": [],
        "copartition_groups": [],
    }  # fmt: skip


def _tasks(rng: random.Random) -> list[dict[str, Any]]:
    indexes = rng.choice(([], [0], [1], [0, 1], [0, 1], [0, 9]))
    return [{"subtopology_id": rng.choice(("0", "0", "0", "1", "7")), "partitions": indexes}] if indexes else []


def _without_internal_topics(values: dict[str, Any]) -> dict[str, Any]:
    if values["topology"] is None:
        return values
    bare = {"state_changelog_topics": [], "repartition_source_topics": [], "copartition_groups": []}
    subtopologies = [{**each, **bare} for each in values["topology"]["subtopologies"]]
    return {**values, "topology": {**values["topology"], "subtopologies": subtopologies}}
