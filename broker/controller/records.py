"""Metadata records: what is written to `__cluster_metadata`, in Kafka's own record schemas.

Each class is one of Kafka's records (`common/metadata/*.json` in Apache Kafka 4.3.1) in the one version that we write.
`__older__` has the versions that are read too: they lack a tagged field, which then has its default.
It describes its fields as kio's message types do, so that broker/wire makes its encoder and decoder. Fields stand in
Kafka's order. `API_KEYS` in record_codec.py has the numbers of the records.

A field that Kafka has and we do not (`_not_known`) is written with Kafka's default, and a record with another value is
refused.

`directories` of a partition are the ids of the log directories of its replicas, in the order of the replicas (KIP-858).
None, the zero id, means that the broker has not told it yet. An empty list means this for every replica.

A field that we have and Kafka does not is tagged, from `OWN_TAGS` on. Kafka's decoder skips the tags that it does not
know. There is one: the replicas of a broker that failed although their log directory works (`replica_directory`).

One field means more than in Kafka: a change of a registration always says whether the broker is in controlled shutdown.
To Kafka 0 means that this stays as it was. Both differ only for a broker that comes back from a controlled shutdown
without a new registration. None of ours does.

See docs/decisions/0002-metadata-records.md.
"""

# No postponed annotations here: the code generation of broker/wire reads the types of the fields.

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from uuid import UUID, uuid5

OWN_TAGS: Final = 10_000  # Kafka counts its tags from 0, one by one: its highest of a metadata record is 8
OFFLINE_DIRECTORIES_TAG: Final = OWN_TAGS
NOT_KNOWN: Final = "not_known"  # in the description of a field
LEADER_STAYS: Final = -2  # A PartitionChangeRecord says so by it.
FENCE, UNFENCE = 1, -1  # A BrokerRegistrationChangeRecord has one of them.


def replica_directory(topic_id: UUID, partition: int) -> UUID:
    """The id under which a replica of this partition is reported if it fails by itself.

    To Kafka only a whole log directory can fail. A broker of ours that has only one does not end if the storage of one
    partition fails. The directory of the partition then counts as a log directory of its own. Its id follows from the
    partition (docs/decisions/0008-storage-failures.md).
    """
    return uuid5(topic_id, str(partition))


def _of(kafka_type: str, *, tag: int | None = None) -> dict[str, Any]:
    """What the code generation asks of a field."""
    return {"kafka_type": kafka_type} if tag is None else {"kafka_type": kafka_type, "tag": tag}


def _not_known(kafka_type: str, *, tag: int | None = None) -> dict[str, Any]:
    """Of a field that has no meaning here: it is written with its default, and refused with another value."""
    return {**_of(kafka_type, tag=tag), NOT_KNOWN: True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    listener: str = field(metadata=_of("string"))  # listener name: EXTERNAL, DIRECT, INTERNAL, CONTROLLER
    host: str = field(metadata=_of("string"))
    port: int = field(metadata=_of("uint16"))
    security_protocol: int = field(metadata=_of("int16"), default=0)  # 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFeature:
    name: str = field(metadata=_of("string"))
    min_supported_version: int = field(metadata=_of("int16"))
    max_supported_version: int = field(metadata=_of("int16"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord:
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_of("string"))
    level: int = field(metadata=_of("int16"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord:
    __version__: ClassVar[int] = 4
    __older__: ClassVar[tuple[int, ...]] = (3,)  # without tag 1
    __flexible__: ClassVar[bool] = True
    broker_id: int = field(metadata=_of("int32"))
    is_migrating_zk_broker: bool = field(metadata=_not_known("bool"), default=False)
    incarnation_id: UUID | None = field(metadata=_of("uuid"))  # None: the zero id
    broker_epoch: int = field(metadata=_of("int64"))  # offset of this record
    endpoints: tuple[Endpoint, ...]
    features: tuple[BrokerFeature, ...] = field(metadata={NOT_KNOWN: True}, default=())
    rack: str | None = field(metadata=_of("string"))
    fenced: bool = field(metadata=_of("bool"))
    in_controlled_shutdown: bool = field(metadata=_of("bool"))
    log_directories: tuple[UUID, ...] = field(metadata=_of("uuid", tag=0), default=())  # that work, sorted
    # Sorted; None: none. Only in a snapshot, because a new registration has none.
    cordoned_directories: tuple[UUID, ...] | None = field(metadata=_of("uuid", tag=1), default=None)
    # Only in a snapshot; a new registration has none.
    offline_directories: tuple[UUID, ...] = field(metadata=_of("uuid", tag=OFFLINE_DIRECTORIES_TAG), default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecord:
    __version__: ClassVar[int] = 3
    __older__: ClassVar[tuple[int, ...]] = (2,)  # without tag 3
    __flexible__: ClassVar[bool] = True
    broker_id: int = field(metadata=_of("int32"))
    broker_epoch: int = field(metadata=_of("int64"))
    fenced: int = field(metadata=_of("int8", tag=0), default=0)  # FENCE or UNFENCE
    in_controlled_shutdown: int = field(metadata=_of("int8", tag=1), default=0)  # 1 or 0
    # All that still work, sorted. Empty: they stay as they are.
    log_directories: tuple[UUID, ...] = field(metadata=_of("uuid", tag=2), default=())
    # All that get no new replicas (KIP-1066), sorted. None: they stay as they are.
    cordoned_directories: tuple[UUID, ...] | None = field(metadata=_of("uuid", tag=3), default=None)
    # All of them, sorted.
    offline_directories: tuple[UUID, ...] = field(metadata=_of("uuid", tag=OFFLINE_DIRECTORIES_TAG), default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord:
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    broker_id: int = field(metadata=_of("int32"))
    broker_epoch: int = field(metadata=_of("int64"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_of("string"))
    topic_id: UUID = field(metadata=_of("uuid"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    topic_id: UUID = field(metadata=_of("uuid"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    __version__: ClassVar[int] = 2
    __flexible__: ClassVar[bool] = True
    partition: int = field(metadata=_of("int32"))
    topic_id: UUID = field(metadata=_of("uuid"))
    replicas: tuple[int, ...] = field(metadata=_of("int32"))
    isr: tuple[int, ...] = field(metadata=_of("int32"))
    removing: tuple[int, ...] = field(metadata=_of("int32"), default=())
    adding: tuple[int, ...] = field(metadata=_of("int32"), default=())
    leader: int = field(metadata=_of("int32"))  # -1: offline
    leader_epoch: int = field(metadata=_of("int32"))
    partition_epoch: int = field(metadata=_of("int32"))
    directories: tuple[UUID | None, ...] = field(metadata=_of("uuid"), default=())
    leader_recovery_state: int = field(metadata=_not_known("int8", tag=0), default=0)  # 0: recovered
    elr: tuple[int, ...] = field(metadata=_of("int32", tag=1), default=())
    last_known_elr: tuple[int, ...] = field(metadata=_of("int32", tag=2), default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    """What changes in a partition. Its partition epoch always grows by one. None: the replicas, those that a
    reassignment adds or removes, or the eligible leader replicas stay as they are.

    A leader, also if it is the one before, makes the leader epoch grow by one. LEADER_STAYS: neither changes.
    """

    __version__: ClassVar[int] = 2
    __flexible__: ClassVar[bool] = True
    partition: int = field(metadata=_of("int32"))
    topic_id: UUID = field(metadata=_of("uuid"))
    isr: tuple[int, ...] | None = field(metadata=_of("int32", tag=0), default=None)
    leader: int = field(metadata=_of("int32", tag=1), default=LEADER_STAYS)  # -1: offline
    replicas: tuple[int, ...] | None = field(metadata=_of("int32", tag=2), default=None)
    removing: tuple[int, ...] | None = field(metadata=_of("int32", tag=3), default=None)
    adding: tuple[int, ...] | None = field(metadata=_of("int32", tag=4), default=None)
    leader_recovery_state: int = field(metadata=_not_known("int8", tag=5), default=-1)  # -1: it stays
    elr: tuple[int, ...] | None = field(metadata=_of("int32", tag=6), default=None)
    last_known_elr: tuple[int, ...] | None = field(metadata=_of("int32", tag=7), default=None)
    directories: tuple[UUID | None, ...] | None = field(metadata=_of("uuid", tag=8), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearElrRecord:
    """Partitions forget their eligible leader replicas and their last known leaders (KIP-966)."""

    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    topic: str = field(metadata=_of("string"))  # The topic's name. "": every topic.


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    resource_type: int = field(metadata=_of("int8"))  # 2 topic, 4 broker, 32 group
    resource_name: str = field(metadata=_of("string"))  # A broker's id, or "" for the cluster-wide broker default.
    name: str = field(metadata=_of("string"))
    value: str | None = field(metadata=_of("string"))  # None removes it


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord:
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    broker_id: int = field(metadata=_of("int32"))
    broker_epoch: int = field(metadata=_of("int64"))
    next_producer_id: int = field(metadata=_of("int64"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControlEntryRecord:
    """The numbers are those of `broker.security.acls`."""

    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    acl_id: UUID = field(metadata=_of("uuid"))
    resource_type: int = field(metadata=_of("int8"))
    resource_name: str = field(metadata=_of("string"))
    pattern_type: int = field(metadata=_of("int8"))
    principal: str = field(metadata=_of("string"))
    host: str = field(metadata=_of("string"))
    operation: int = field(metadata=_of("int8"))
    permission_type: int = field(metadata=_of("int8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAccessControlEntryRecord:
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    acl_id: UUID = field(metadata=_of("uuid"))


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScramCredentialRecord:
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_of("string"))
    mechanism: int = field(metadata=_of("int8"))  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
    salt: bytes = field(repr=False, metadata=_of("bytes"))
    stored_key: bytes = field(repr=False, metadata=_of("bytes"))
    server_key: bytes = field(repr=False, metadata=_of("bytes"))
    iterations: int = field(metadata=_of("int32"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveUserScramCredentialRecord:
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_of("string"))
    mechanism: int = field(metadata=_of("int8"))


MetadataRecord = (
    FeatureLevelRecord
    | RegisterBrokerRecord
    | BrokerRegistrationChangeRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | RemoveTopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | ClearElrRecord
    | ConfigRecord
    | ProducerIdsRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | UserScramCredentialRecord
    | RemoveUserScramCredentialRecord
)
