"""The vocabulary of the controller core: events (requests with a token) and actions. Values only.

Error codes are Kafka's integers. Requests carry what the Kafka request of that name carries; the node maps kio types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from broker.controller.image import MetadataImage, PartitionState
from broker.controller.records import Endpoint
from broker.quorum.types import LogEntry

# -- events from the quorum -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipGained:
    """quorum BecameLeader. The controller turns active when the LeaderChange entry of this epoch commits."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipLost:
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataCommitted:
    entries: tuple[LogEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """`next_deadline_ms()` has come."""


# -- requests: each is answered by exactly one Respond with its token --------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    token: int
    broker_id: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerResponse:
    error_code: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeat:
    token: int
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool
    want_shut_down: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeatResponse:
    error_code: int
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    name: str
    partitions: int = -1  # -1: num.partitions
    replication_factor: int = -1  # -1: default.replication.factor
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # manual; then the two above are -1
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopics:
    token: int
    topics: tuple[NewTopic, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    name: str
    error_code: int
    error_message: str | None
    topic_id: UUID | None
    partitions: int  # -1 on error
    replication_factor: int  # -1 on error
    configs: Mapping[str, str]  # overrides


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsResponse:
    error_code: int  # NOT_CONTROLLER: then topics is empty
    topics: tuple[CreatedTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopics:
    token: int
    names: tuple[str, ...]
    topic_ids: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopic:
    name: str | None
    topic_id: UUID | None
    error_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsResponse:
    error_code: int
    topics: tuple[DeletedTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChange:
    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    new_isr: Mapping[int, int]  # broker id -> broker epoch, -1 when unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartition:
    token: int
    broker_id: int
    broker_epoch: int
    changes: tuple[IsrChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredPartition:
    topic_id: UUID
    partition: int
    error_code: int
    state: PartitionState | None  # after the change; None on error


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionResponse:
    error_code: int
    partitions: tuple[AlteredPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIds:
    token: int
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIdsResponse:
    error_code: int
    producer_id_start: int
    producer_id_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    resource_type: int  # 2 topic, 4 broker
    resource_name: str
    changes: Mapping[str, str | None]  # None removes the override


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigs:
    """IncrementalAlterConfigs with SET and DELETE."""

    token: int
    resources: tuple[ConfigChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredConfig:
    resource_type: int
    resource_name: str
    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResponse:
    error_code: int
    resources: tuple[AlteredConfig, ...]


ControllerRequest = (
    RegisterBroker | BrokerHeartbeat | CreateTopics | DeleteTopics | AlterPartition | AllocateProducerIds | AlterConfigs
)
ControllerResponse = (
    RegisterBrokerResponse
    | BrokerHeartbeatResponse
    | CreateTopicsResponse
    | DeleteTopicsResponse
    | AlterPartitionResponse
    | AllocateProducerIdsResponse
    | AlterConfigsResponse
)
ControllerEvent = LeadershipGained | LeadershipLost | MetadataCommitted | Tick | ControllerRequest


# -- actions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMetadata:
    """Hand to quorum.handle(Propose(epoch, payload)), at once and in order."""

    epoch: int
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Respond:
    """After the commit of what the request wrote; at once when it wrote nothing or was refused."""

    token: int
    response: ControllerResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePublished:
    """The committed image moved. On every node, active or not; comes before the Responds of the same commit."""

    old: MetadataImage
    new: MetadataImage


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerActivated:
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerDeactivated:
    epoch: int


ControllerAction = WriteMetadata | Respond | ImagePublished | ControllerActivated | ControllerDeactivated
