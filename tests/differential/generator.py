"""Requests of every API and version, drawn from the pools by a seed: plain values and symbols, not yet messages.

A chapter is about one API in one version. It has topics of its own, then a sequence of requests of this API and of
related ones (those that make its state), then requests that only read. The same seed gives the same chapter.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker.wire.apis import APIS, Api, ApiKey, Listener
from broker.wire.messages import field_shapes, request_type
from tests.differential.values import Names, pools, records

# Of share groups, asked in test_node_share_apis.py alone: requests between brokers are not wrong in as many ways.
NOT_DRAWN = frozenset(key for key in ApiKey if key.name.endswith(("GROUP_STATE", "GROUP_STATE_SUMMARY")))
CONTROLLER_ONLY = frozenset(key for key, api in APIS.items() if Listener.CLIENT not in api.listeners)
NEIGHBOURS: Mapping[ApiKey, Sequence[ApiKey]] = {
    **dict.fromkeys(
        (ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP, ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS),
        (ApiKey.JOIN_GROUP,),
    ),
    **dict.fromkeys((ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE, ApiKey.DELETE_GROUPS), (ApiKey.OFFSET_COMMIT,)),
    **dict.fromkeys(
        (
            ApiKey.ADD_PARTITIONS_TO_TXN,
            ApiKey.ADD_OFFSETS_TO_TXN,
            ApiKey.DESCRIBE_TRANSACTIONS,
            ApiKey.LIST_TRANSACTIONS,
        ),
        (ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN),
    ),
    **dict.fromkeys(
        (ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT), (ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN)
    ),
    **dict.fromkeys((ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.DELETE_RECORDS), (ApiKey.PRODUCE,)),
    **dict.fromkeys((ApiKey.DESCRIBE_CONFIGS,), (ApiKey.INCREMENTAL_ALTER_CONFIGS,)),
    **dict.fromkeys((ApiKey.DESCRIBE_ACLS, ApiKey.DELETE_ACLS), (ApiKey.CREATE_ACLS,)),
    **dict.fromkeys((ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,), (ApiKey.ALTER_USER_SCRAM_CREDENTIALS,)),
    **dict.fromkeys((ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,), (ApiKey.ALTER_SHARE_GROUP_OFFSETS, ApiKey.PRODUCE)),
    **dict.fromkeys((ApiKey.METADATA, ApiKey.DELETE_TOPICS, ApiKey.DESCRIBE_TOPIC_PARTITIONS), (ApiKey.CREATE_TOPICS,)),
}
NEIGHBOUR_SHARE = 0.25
TWICE_SHARE = 0.3  # of the drawn repetitions of one thing in a request that are kept
# What these answer to a thing named twice is an accident of Apache Kafka's maps (the last one wins, or both are merged,
# or there is no answer), and no client asks so: not compared.
NEVER_TWICE = frozenset({
    ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT, ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.WRITE_TXN_MARKERS, ApiKey.DELETE_RECORDS, ApiKey.ALTER_CONFIGS,
    ApiKey.JOIN_GROUP, ApiKey.ELECT_LEADERS, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
})  # fmt: skip
_IDENTITY_OF = {"transactions": ("transactional_id",), "markers": ("producer_id",)}
_IDENTITIES = (
    "name", "topic", "topic_name", "topic_id", "index", "partition", "partition_index", "resource_type",
    "resource_name", "group_id", "transactional_id", "producer_id", "member_id", "key", "entity_type", "entity",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request. `values` as for wire.messages.request, symbols unresolved."""

    key: ApiKey
    version: int
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    key: ApiKey
    version: int
    names: Names
    asked: tuple[Asked, ...]

    @property
    def title(self) -> str:
        return f"{self.key.name} v{self.version}"


def chapters(seed: int, requests: int, *, keys: Sequence[ApiKey] = (), looks: bool = True) -> Iterator[Chapter]:
    """Every API of the clients' listener, every version that is served. `looks`: at what it came to, at its end."""
    for key, api in sorted(APIS.items()):
        if key in CONTROLLER_ONLY | NOT_DRAWN or (keys and key not in keys):
            continue
        for version in range(api.min_version, api.max_version + 1):
            yield chapter(api, version, seed, requests, looks=looks)


def chapter(api: Api, version: int, seed: int, requests: int, *, looks: bool = True) -> Chapter:
    rng = random.Random(f"{seed} {api.key.name} {version}")
    names = Names(f"d{api.key:02d}v{version}")
    asked = [*_beginning(api.key, names)]
    for _ in range(requests):
        key = api.key
        if rng.random() < NEIGHBOUR_SHARE:
            key = rng.choice(NEIGHBOURS.get(api.key, (api.key,)))
        chosen = version if key == api.key else APIS[key].max_version
        values = _values(key, request_type(key, chosen), names, rng)
        if key is ApiKey.PRODUCE:
            values = _alone_without_records(values)
        if key is ApiKey.INCREMENTAL_ALTER_CONFIGS:
            values = {**values, "resources": _alone_with_unknown_operation(values["resources"])}
        if key is ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS:
            values = _mostly_existing(values, names, rng)
        if key is ApiKey.WRITE_TXN_MARKERS:
            values = {**values, "markers": _one_at_a_time(values["markers"])}
        asked.append(Asked(key=key, version=chosen, values=values))
    return Chapter(key=api.key, version=version, names=names, asked=(*asked, *(_look(names) if looks else ())))


def _alone_without_records(values: dict[str, Any]) -> dict[str, Any]:
    """A partition without records leaves Apache Kafka without an answer for all others of the request too."""
    for topic in values["topic_data"]:
        for data in topic["partition_data"]:
            if data["records"] is None:
                return {**values, "topic_data": [{**topic, "partition_data": [data]}]}
    return values


def _alone_with_unknown_operation(resources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Beside other settings it depends on the order of a hash map whether Apache Kafka comes to it."""
    for resource in resources:
        for each in resource["configs"]:
            if each["config_operation"] not in range(4):
                return [{**resource, "configs": [each]}]
    return resources


def _mostly_existing(values: dict[str, Any], names: Names, rng: random.Random) -> dict[str, Any]:
    """Partitions of the chapter's topics that do not exist are asked for seldom: Apache Kafka does not answer then, and
    the run waits for it."""
    first, second = names.topics
    counts = {first: 2, second: 1}

    def kept(topic: dict[str, Any]) -> dict[str, Any]:
        count = counts.get(topic["topic_name"])
        if count is None or rng.random() < 0.05:
            return topic
        there = [each for each in topic["partitions"] if 0 <= each < count]
        return {**topic, "partitions": there or [0]}

    groups = [{**group, "topics": group["topics"] and [*map(kept, group["topics"])]} for group in values["groups"]]
    return {**values, "groups": groups}


def _one_at_a_time(markers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Apache Kafka waits for the answer to a marker that is in none of its logs: one marker at a time."""
    return markers[:1]


def _beginning(key: ApiKey, names: Names) -> Iterator[Asked]:
    """A transactional producer, so that its symbol means something."""
    yield Asked(
        key=ApiKey.INIT_PRODUCER_ID,
        version=4,
        values={
            "transactional_id": names.transactional_id,
            "transaction_timeout": 600_000,
            "producer_id": -1,
            "producer_epoch": -1,
        },
    )


def _values(key: ApiKey, message_type: Any, names: Names, rng: random.Random, parent: str = "") -> dict[str, Any]:
    chosen = pools(names, rng)
    values: dict[str, Any] = {}
    for shape in field_shapes(message_type):
        name = shape.name
        if shape.nested is not None and shape.is_array:
            if shape.nullable and rng.random() < 0.1:
                values[name] = None
            else:
                count = _count(rng, key, name)
                drawn = [_values(key, shape.nested, names, rng, name) for _ in range(count)]
                values[name] = _once(key, drawn, rng, _IDENTITY_OF.get(name, _IDENTITIES))
        elif shape.nested is not None:
            is_absent = shape.nullable and rng.random() < 0.5
            values[name] = None if is_absent else _values(key, shape.nested, names, rng, name)
        elif name == "records":
            values[name] = records(rng)
        else:
            values[name] = _scalar(key, shape, chosen, rng, parent)
    return values


def _count(rng: random.Random, key: ApiKey, name: str) -> int:
    if name == "transactions":  # none at all: Apache Kafka gives no answer, and the run waits for it
        return 0 if rng.random() < 0.01 else rng.choice((1, 1, 2))
    if key is ApiKey.ADD_PARTITIONS_TO_TXN:
        return rng.choice((1, 1, 2))  # an answer without partitions cannot say that it comes too early
    return rng.choice((0, 1, 1, 1, 1, 2, 2))


def _once(key: ApiKey, drawn: Sequence[Any], rng: random.Random, identity: Sequence[str] = _IDENTITIES) -> list[Any]:
    """Each thing once, save for some repetitions where a request may have them."""
    kept: dict[str, Any] = {}
    for number, each in enumerate(drawn):
        about = {name: each[name] for name in identity if name in each} if isinstance(each, dict) else each
        is_twice = str(about) in kept and key not in NEVER_TWICE and rng.random() < TWICE_SHARE
        kept.setdefault(f"{number} {about}" if is_twice else str(about), each)
    return list(kept.values())


def _scalar(key: ApiKey, shape: Any, chosen: Mapping[str, Sequence[Any]], rng: random.Random, parent: str) -> Any:
    pool = chosen.get(f"{parent}.{shape.name}")
    if key is ApiKey.CREATE_TOPICS and (parent, shape.name) == ("topics", "name"):
        pool = chosen["create.name"]
    if key is ApiKey.DESCRIBE_QUORUM and shape.name == "topic_name":
        pool = chosen["quorum.name"]
    if key is ApiKey.DESCRIBE_ACLS:
        pool = chosen.get(f"describe.{shape.name}", pool)
    if key is ApiKey.SASL_HANDSHAKE:  # not the number of a mechanism, as in the APIs of SCRAM
        pool = ("PLAIN", "SCRAM-SHA-256", "none of these", "")
    if key is ApiKey.SASL_AUTHENTICATE:
        pool = (b"", b"\0alice\0secret", b"n,,n=alice,r=abc")
    if key is ApiKey.INIT_PRODUCER_ID and shape.name == "producer_epoch":
        pool = chosen["init.producer_epoch"]
    if pool is None:
        pool = chosen.get(shape.name)
    if pool is None:
        if shape.kafka_type == "bool":
            pool = (False, True)
        else:
            raise KeyError(f"{key.name}: no values for field {parent}.{shape.name} of type {shape.kafka_type}")
    if shape.is_array:
        if shape.nullable and rng.random() < 0.2:
            return None
        counts = (1, 1, 2) if key is ApiKey.ADD_PARTITIONS_TO_TXN else (0, 1, 1, 1, 2)
        return _once(key, [_fitting(shape, rng.choice(pool)) for _ in range(rng.choice(counts))], rng)
    value = rng.choice(pool)
    if value is None and not shape.nullable:
        return _fitting(shape, value)
    return value


def _fitting(shape: Any, value: Any) -> Any:
    """None where a version has no null: the zero of its type."""
    if value is not None or shape.nullable:
        return value
    return {"string": "", "uuid": None}.get(shape.kafka_type, 0)


def _look(names: Names) -> Iterator[Asked]:
    """What the chapter has come to, by requests that change nothing."""
    first, second = names.topics
    yield Asked(
        key=ApiKey.METADATA,
        version=12,
        values={
            "topics": [{"topic_id": None, "name": each} for each in names.topics],
            "allow_auto_topic_creation": False,
        },
    )
    for timestamp in (-1, -2, -3):
        partitions = [
            {"partition_index": index, "current_leader_epoch": -1, "timestamp": timestamp} for index in range(2)
        ]
        yield Asked(
            key=ApiKey.LIST_OFFSETS,
            version=7,
            values={"replica_id": -1, "isolation_level": 1, "topics": [{"name": first, "partitions": partitions}]},
        )
    fetched = {
        "current_leader_epoch": -1,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1_000_000,
    }
    partitions_fetched = [{"partition": index, "fetch_offset": 0, **fetched} for index in range(2)]
    yield Asked(
        key=ApiKey.FETCH,
        version=12,
        values={
            "replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 10_000_000, "isolation_level": 0,
            "session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": "", "cluster_id": None,
            "topics": [{"topic": first, "partitions": partitions_fetched}],
        },
    )  # fmt: skip
    resources = [{"resource_type": 2, "resource_name": each, "configuration_keys": None} for each in (first, second)]
    yield Asked(
        key=ApiKey.DESCRIBE_CONFIGS,
        version=4,
        values={"resources": resources, "include_synonyms": False, "include_documentation": False},
    )
    groups = [{"group_id": names.group, "topics": None, "member_id": None, "member_epoch": -1}]
    yield Asked(key=ApiKey.OFFSET_FETCH, version=9, values={"groups": groups, "require_stable": False})
    yield Asked(key=ApiKey.DESCRIBE_GROUPS, version=5, values={"groups": [names.group]})
    yield Asked(key=ApiKey.DESCRIBE_TRANSACTIONS, version=0, values={"transactional_ids": [names.transactional_id]})
    yield Asked(
        key=ApiKey.DESCRIBE_PRODUCERS,
        version=0,
        values={"topics": [{"name": first, "partition_indexes": [0, 1]}]},
    )
