"""Metadata records: what is written to `__cluster_metadata`. Named after Kafka's records; encoded as compact JSON.

kio has no types for Kafka's metadata records, so the encoding is ours: docs/decisions/0002-metadata-records.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID, uuid5


def replica_directory(topic_id: UUID, partition: int) -> UUID:
    """The log directory of a replica of this partition. KIP-858 names log directories by ids.

    Kafka assigns each partition to one of the broker's `log.dirs` and tells the controller by AssignReplicasToDirs.
    Here the directory of each partition counts as a log directory of its own and fails by itself. So its id follows
    from the partition.
    """
    return uuid5(topic_id, str(partition))


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    listener: str  # listener name: EXTERNAL, DIRECT, INTERNAL, CONTROLLER
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord:
    name: str
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord:
    broker_id: int
    incarnation_id: UUID | None  # None: the zero id
    broker_epoch: int  # offset of this record's entry
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    offline_directories: tuple[UUID, ...] = ()  # only in a snapshot; a new registration has none


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecord:
    broker_id: int
    broker_epoch: int
    fenced: bool
    in_controlled_shutdown: bool
    offline_directories: tuple[UUID, ...] = ()  # all of them, sorted


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord:
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    name: str
    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    topic_id: UUID
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int  # -1: offline
    leader_epoch: int
    partition_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    """`isr` and `leader` are those after the change. If `new_leader_epoch`, the leader epoch grows by one. The
    partition epoch always grows by one. In the other fields None means: this list stays as it is."""

    topic_id: UUID
    partition: int
    isr: tuple[int, ...]
    leader: int
    new_leader_epoch: bool
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearElrRecord:
    """Partitions forget their eligible leader replicas and their last known leaders (KIP-966)."""

    topic: str | None  # by name; None: for every topic


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    resource_type: int  # 2 topic, 4 broker, 16 client metrics, 32 group
    resource_name: str  # for a broker its id; "" for the cluster-wide broker default
    name: str
    value: str | None  # None removes it


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord:
    broker_id: int
    broker_epoch: int
    next_producer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaRecord:
    entity: tuple[tuple[str, str | None], ...]  # ((entity type, name or None for the default), ..), sorted by type
    key: str
    value: float | None  # None removes it


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControlEntryRecord:
    """The numbers are those of `broker.security.acls`."""

    acl_id: UUID
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAccessControlEntryRecord:
    acl_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScramCredentialRecord:
    name: str
    mechanism: int  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveUserScramCredentialRecord:
    name: str
    mechanism: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokenRecord:
    """A new token, or a token whose time of expiry has changed. The record does not hold its secret."""

    token_id: str
    owner: str  # for example User:alice
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int  # wall clock
    expires_ms: int
    ends_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveDelegationTokenRecord:
    token_id: str


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
    | ClientQuotaRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | UserScramCredentialRecord
    | RemoveUserScramCredentialRecord
    | DelegationTokenRecord
    | RemoveDelegationTokenRecord
)
