"""What the generator puts into each field: values that have a meaning for the field's name, right and wrong ones.

A `Symbol` stands for a value that only a broker knows (a topic's id, a producer's id). Each side inserts its own value.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from broker.wire.records import CodecId, encode_batch

BASE_MS = 1_790_000_000_000  # of all record timestamps; the topics accept any
NOWHERE = UUID(int=5)
METADATA_TOPIC = "__cluster_metadata"


@dataclass(frozen=True, slots=True)
class Symbol:
    """`kind` topic: id of the topic `of`; producer, epoch: last ones given for `of`; member: last id in group `of`."""

    kind: str
    of: str


@dataclass(frozen=True, slots=True)
class Names:
    """What a chapter calls its things, so that chapters do not meet."""

    chapter: str

    @property
    def topics(self) -> tuple[str, str]:
        return f"{self.chapter}-t", f"{self.chapter}-u"

    @property
    def group(self) -> str:
        return f"{self.chapter}-g"

    @property
    def transactional_id(self) -> str:
        return f"{self.chapter}-x"

    def spare(self, rng: random.Random) -> str:
        return f"{self.chapter}-new{rng.randrange(4)}"


def pools(names: Names, rng: random.Random) -> Mapping[str, Sequence[Any]]:
    """Field name, or `parent.field`, to what it may hold; more frequent values stand more than once."""
    first, second = names.topics
    topic = (first, first, first, second, f"{names.chapter}-absent", "")
    created = (names.spare(rng), names.spare(rng), first, "", ".", "bad/name", "x" * 250)
    transactional = (names.transactional_id, names.transactional_id, names.transactional_id, f"{names.chapter}-y", "")
    group = (names.group, names.group, names.group, f"{names.chapter}-other", "")
    partition = (0, 0, 0, 1, 1, 2, 77, -1)
    ids = (Symbol("topic", first), Symbol("topic", first), Symbol("topic", second), NOWHERE, None)
    user = (f"{names.chapter}-a", f"{names.chapter}-a", f"{names.chapter}-b", "")
    ms = timedelta(milliseconds=10_000)
    long = timedelta(milliseconds=600_000)  # nothing expires while a slow machine runs a chapter
    producer, epoch = Symbol("producer", names.transactional_id), Symbol("epoch", names.transactional_id)
    return {
        "transactional_id": (*transactional, None),
        "transactional_ids": transactional,
        "transactional_id_pattern": (None, "", f"{names.chapter}.*", "(", "absent"),
        "acks": (-1, -1, -1, 1, 1, 5, -2),
        "timeout": (ms,),
        "topic_id": ids,
        "name": topic,
        "topic": topic,
        "topic_name": topic,
        "index": partition,
        "partition": partition,
        "partition_index": partition,
        "partitions": partition,
        "partition_indexes": partition,
        "replica_id": (-1, -1, -1, -2, 9),
        "max_wait": (timedelta(0), timedelta(milliseconds=5)),
        "min_bytes": (0, 1),
        "max_bytes": (0, 1, 1_000_000, 2**31 - 1),
        "partition_max_bytes": (0, 1, 1_000_000, 1_000_000),
        "isolation_level": (0, 0, 1),
        "session_id": (0, 0, 0, 12345),
        "session_epoch": (-1, -1, -1, 0, 3),
        "current_leader_epoch": (-1, -1, -1, 0, 0, 1, 9),
        "fetch_offset": (0, 1, 4, 5, 6, 1000, -1),
        "last_fetched_epoch": (-1,),
        "high_watermark": (2**63 - 1, 0, -1, 5),
        "log_start_offset": (-1, 0),
        "rack_id": ("", "r1"),
        "timestamp": (-1, -1, -2, -2, -3, -4, -5, -6, 0, BASE_MS, BASE_MS + 2, BASE_MS + 3, BASE_MS + 99, -77),
        "max_num_offsets": (1,),
        "allow_auto_topic_creation": (False,),
        "group_id": group,
        "groups": group,
        "groups_names": group,
        "group_ids": group,
        "generation_id": (-1, 1, 1, 2, 9),
        "generation_id_or_member_epoch": (-1, -1, 1, 9),
        "member_id": ("", "", Symbol("member", names.group), Symbol("member", names.group), "nobody"),
        "group_instance_id": (None, None, None, None, "i"),
        "committed_offset": (0, 3, 5, -5, 2**40),
        "committed_leader_epoch": (-1, 0),
        "committed_metadata": ("", "m", None, "x" * 5_000),
        "retention_time": (timedelta(milliseconds=-1),),
        "commit_timestamp": (-1,),
        "require_stable": (False, True),
        "key": (names.group, ""),
        "coordinator_keys": (names.group, names.transactional_id, ""),
        "key_type": (0, 0, 1, 1, 7),
        "session_timeout": (long, long, long, timedelta(milliseconds=1)),
        "rebalance_timeout": (timedelta(milliseconds=400),),
        "protocol_type": ("consumer", "consumer", "consumer", "connect", ""),
        "protocol_name": ("range", "range", None, "zz"),
        "protocols.name": ("range", "range", "zz"),
        "protocols.metadata": (b"\0\0\0\0\0\0\xff\xff\xff\xff",),
        "assignments.member_id": (Symbol("member", names.group), "nobody"),
        "assignments.assignment": (b"A",),
        "reason": (None, "why"),
        "states_filter": ("Stable", "Empty", "nonsense"),
        "types_filter": ("classic", "consumer", "nonsense"),
        "client_software_name": ("software", "", "bad name"),
        "client_software_version": ("1.0", ""),
        "topics.name": topic,
        "create.name": created,
        "quorum.name": (METADATA_TOPIC, METADATA_TOPIC, METADATA_TOPIC, first, ""),
        "num_partitions": (1, 2, -1, 0),
        "replication_factor": (1, 1, -1, 0, 2),
        "assignments.partition_index": (0, 1, 1),
        "broker_ids": (1, 1, 1, 4),
        "replicas": (1, 1, 1, 4),
        "broker_id": (4, 77, -1),  # to be unregistered: not the one that answers
        "configs.name": ("retention.ms", "cleanup.policy", "segment.bytes", "no.such.setting", "max.message.bytes", ""),
        "configs.value": ("2000000", "delete", "compact", "compact,delete", "abc", "-5", "", None),
        "validate_only": (False, True),
        "topic_names": topic,
        "v3_and_below_transactional_id": transactional,
        "v3_and_below_producer_id": (producer, producer, producer, -1, 987_654),
        "v3_and_below_producer_epoch": (epoch, epoch, epoch, 0, 1, -1),
        "replica_directory_id": (None,),
        "offset": (0, 2, 5, -1, 77, -2),
        "transaction_timeout": (long, long, long, timedelta(0), timedelta(days=20)),
        "producer_id": (producer, producer, producer, producer, -1, 987_654),
        "producer_epoch": (epoch, epoch, epoch, 0, 1, -1, 30),
        "init.producer_epoch": (epoch, epoch, -1),
        "leader_epoch": (0, 0, 1, 7, -1),
        "verify_only": (False, False, True),
        "committed": (True, False),
        "transaction_result": (True, False),
        "coordinator_epoch": (0, 1),
        "transaction_version": (0, 1, 2),
        "resource_type": (2, 2, 2, 4, 8, 77),
        "resource_types": (2, 4, 8, 32, 77),
        "resource_name": (first, first, second, f"{names.chapter}-absent", "1", "9", ""),
        "configuration_keys": ("retention.ms", "cleanup.policy", "no.such.setting"),
        "include_synonyms": (False, True),
        "include_documentation": (False,),
        "count": (1, 2, 3, 4, 0, -1),
        "election_type": (0, 1, 5),
        "topic_partitions.topic": topic,
        "config_operation": (0, 0, 1, 2, 3, 9),
        "state_filters": ("Ongoing", "Empty", "nonsense"),
        "producer_id_filters": (Symbol("producer", names.transactional_id), 987_654),
        "duration_filter": (-1, 0, 10_000_000),
        "response_partition_limit": (1, 2, 100, 2000, 0, -1),
        "member_epoch": (0, 0, 1, 2, -1, -2, 9),
        "instance_id": (None, None, "i"),
        "subscribed_topic_names": topic[:5],
        "subscribed_topic_regex": (None, None, None),
        "server_assignor": (None, None, "range", "uniform", "nonsense"),
        "endpoint_type": (1, 1, 2, 9),
        "include_fenced_brokers": (False, True),
        "fetch.replica_epoch": (-1,),
        "replica_epoch": (-1,),
        "cluster_id": (None,),
        # Access control lists: of principals that nobody is, so that no filter reaches those that others live by.
        "creations.resource_type": (2, 2, 3, 4, 5, 6, 7, 0, 99),
        "creations.resource_name": (first, f"{names.chapter}-", "*", "kafka-cluster", ""),
        "resource_pattern_type": (3, 3, 4, 4, 0, 99),
        "principal": (f"User:{names.chapter}-p", f"User:{names.chapter}-p", f"User:{names.chapter}-q", "nobody"),
        "host": ("*", "10.0.0.1"),
        "operation": (2, 3, 4, 5, 8, 12, 15, 0, 99),
        "permission_type": (3, 3, 2, 0, 99),
        "resource_type_filter": (1, 1, 2, 3, 4, 0),
        "resource_name_filter": (None, None, first, f"{names.chapter}-", "*"),
        "pattern_type_filter": (1, 1, 2, 3, 4, 0),
        "principal_filter": (f"User:{names.chapter}-p", f"User:{names.chapter}-p", f"User:{names.chapter}-q"),
        "host_filter": (None, None, "*"),
        "filters.operation": (1, 1, 1, 3, 4, 0),
        "filters.permission_type": (1, 1, 1, 2, 3),
        "describe.operation": (1, 1, 1, 3, 4, 0),
        "describe.permission_type": (1, 1, 1, 2, 3),
        "deletions.name": user,
        "upsertions.name": user,
        "users.name": user,
        "mechanism": (1, 1, 2, 2, 0, 9),
        "iterations": (4096, 4096, 8192, 4095, 16385),
        "salt": (b"salt", b"salt", b""),
        "salted_password": (b"salted", b"salted", b""),
        # Features: levels that nobody has, so that nothing changes for the requests that follow.
        "feature": ("nope", "group.version", "metadata.version"),
        "max_version_level": (99, -1),
        "upgrade_type": (1, 1, 2, 3, 9),
        "dirs.path": ("/no-such-directory", "relative", ""),
        # Share groups: of members that never joined, so that no lock is waited for.
        "share_session_epoch": (0, 0, 1, -1, 7),
        "max_records": (0, 1, 500),
        "batch_size": (0, 1, 500),
        "share_acquire_mode": (0, 0, 1),
        "is_renew_ack": (False, False, True),
        "first_offset": (0, 1, 5),
        "last_offset": (0, 1, 5),
        "acknowledge_types": (0, 1, 2, 3, 4, 9),
        "start_offset": (-1, 0, 3),
        "state_epoch": (0, 1, -1),
        "delivery_complete_count": (-1, 0),
        "delivery_state": (0, 2, 4),
        "delivery_count": (1, 2),
    }


def records(rng: random.Random) -> bytes | None:
    """One batch, mostly sound."""
    choice = rng.random()
    data = bytearray(
        encode_batch(
            [rng.choice((b"v", b"w" * 30, None)) for _ in range(rng.choice((1, 1, 2, 3)))],
            timestamps_ms=BASE_MS + rng.randrange(5),
            codec=rng.choice((CodecId.NONE, CodecId.NONE, CodecId.GZIP, CodecId.LZ4, CodecId.SNAPPY, CodecId.ZSTD)),
        )
    )
    if choice < 0.55:
        return bytes(data)
    if rng.random() < 0.03:
        return None  # seldom: Apache Kafka does not answer, and the run waits for it
    damage = rng.choice(("crc", "cut", "magic", "empty", "twice", "count", "tail"))
    if damage == "crc":
        data[-1] ^= 1
    elif damage == "cut":
        del data[-3:]
    elif damage == "magic":
        data[16] = 1
    elif damage == "count":
        data[60] = 9
    elif damage == "tail":
        data += b"\0\0\0"
    elif damage == "twice":
        data += bytes(data)
    return b"" if damage == "empty" else bytes(data)
