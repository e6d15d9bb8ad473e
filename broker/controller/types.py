"""The vocabulary of the controller core: events (requests with a token) and actions. Values only.

Error codes are Kafka's integers. A request has the fields of the Kafka request with the same name. The node translates
between the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from broker.controller.directory_types import AssignReplicas, AssignReplicasResponse
from broker.controller.feature_types import UpdateFeatures, UpdateFeaturesResponse
from broker.controller.image import MetadataImage, PartitionState
from broker.controller.reassignment_types import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsResponse,
    UnregisterBroker,
    UnregisterBrokerResponse,
)
from broker.controller.records import Endpoint
from broker.controller.security_types import (
    AlterUserScramCredentials,
    AlterUserScramCredentialsResponse,
    CreateAcls,
    CreateAclsResponse,
    DeleteAcls,
    DeleteAclsResponse,
)
from broker.controller.setting_types import (
    AlterConfigs,
    AlterConfigsResponse,
)
from broker.controller.topic_types import (
    CreatePartitions,
    CreatePartitionsResponse,
    CreateTopics,
    CreateTopicsResponse,
    DeleteTopics,
    DeleteTopicsResponse,
)
from broker.quorum.types import LogEntry

# -- events from the quorum -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipGained:
    """The quorum reported BecameLeader. The controller becomes active when the LeaderChange entry of this epoch
    commits."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipLost:
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataCommitted:
    entries: tuple[LogEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSnapshot:
    """The image of a snapshot. Every entry up to its offset is committed. Only a node that does not lead gets one."""

    image: MetadataImage


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """`next_deadline_ms()` has come."""


# -- requests: each is answered by exactly one Respond with its token --------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    token: int
    broker_id: int
    incarnation_id: UUID | None  # None: the zero id
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    previous_broker_epoch: int = -1  # epoch of the previous process; -1: it did not shut down cleanly
    log_directories: tuple[UUID | None, ...] = ()  # ids of those that work (KIP-858); None: the zero id


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
    # All that failed since the broker started (KIP-858): log directories, and replicas that failed by themselves.
    offline_directories: frozenset[UUID] = frozenset()
    cordoned_directories: frozenset[UUID] | None = None  # log directories without new replicas; None: not told


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeatResponse:
    error_code: int
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChange:
    topic_id: UUID | None  # None: the zero id, which no topic has
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
    topic_id: UUID | None
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
class ElectLeaders:
    """KIP-460. `unclean`: a partition without a leader may also get a leader that is not in sync."""

    token: int
    unclean: bool
    partitions: tuple[tuple[str, int], ...] | None  # None: all


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionOutcome:
    topic: str
    partition: int
    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersResponse:
    error_code: int
    partitions: tuple[ElectionOutcome, ...]


ControllerRequest = (
    RegisterBroker
    | BrokerHeartbeat
    | CreateTopics
    | DeleteTopics
    | AlterPartition
    | AllocateProducerIds
    | AlterConfigs
    | CreatePartitions
    | ElectLeaders
    | CreateAcls
    | DeleteAcls
    | AlterUserScramCredentials
    | AlterPartitionReassignments
    | UnregisterBroker
    | UpdateFeatures
    | AssignReplicas
)
ControllerResponse = (
    RegisterBrokerResponse
    | BrokerHeartbeatResponse
    | CreateTopicsResponse
    | DeleteTopicsResponse
    | AlterPartitionResponse
    | AllocateProducerIdsResponse
    | AlterConfigsResponse
    | CreatePartitionsResponse
    | ElectLeadersResponse
    | CreateAclsResponse
    | DeleteAclsResponse
    | AlterUserScramCredentialsResponse
    | AlterPartitionReassignmentsResponse
    | UnregisterBrokerResponse
    | UpdateFeaturesResponse
    | AssignReplicasResponse
)
ControllerEvent = LeadershipGained | LeadershipLost | MetadataCommitted | MetadataSnapshot | Tick | ControllerRequest


# -- actions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMetadata:
    """Hand to quorum.handle(Propose(epoch, values)), at once and in order. One value for each record, one entry for
    all of them."""

    epoch: int
    values: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Respond:
    """The answer to a request. It comes after the commit of what the request wrote, or at once if it wrote nothing or
    was refused."""

    token: int
    response: ControllerResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePublished:
    """The committed image changed. Sent on every node, active or not, before the Responds of the same commit."""

    old: MetadataImage
    new: MetadataImage


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerActivated:
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerDeactivated:
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFailed:
    """A defect in one request, before any state changed. The request was refused. This event is for the log."""

    request: str  # the name of its type
    cause: str


ControllerAction = (
    WriteMetadata | Respond | ImagePublished | ControllerActivated | ControllerDeactivated | DecisionFailed
)
