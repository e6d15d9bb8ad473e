"""The outcome of a request: records to write, and the answer to give once they are committed."""

from __future__ import annotations

from dataclasses import dataclass

from broker.controller.directory_types import AssignReplicas, AssignReplicasResponse
from broker.controller.feature_types import UpdateFeatures, UpdateFeaturesResponse
from broker.controller.reassignment_types import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsResponse,
    UnregisterBroker,
    UnregisterBrokerResponse,
)
from broker.controller.records import MetadataRecord
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
from broker.controller.types import (
    AllocateProducerIds,
    AllocateProducerIdsResponse,
    AlterPartition,
    AlterPartitionResponse,
    BrokerHeartbeat,
    BrokerHeartbeatResponse,
    ControllerRequest,
    ControllerResponse,
    ElectLeaders,
    ElectLeadersResponse,
    RegisterBroker,
    RegisterBrokerResponse,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    response: ControllerResponse
    records: tuple[MetadataRecord, ...] = ()


def refusal(request: ControllerRequest, error_code: int) -> ControllerResponse:
    """The answer if the whole request is refused (NOT_CONTROLLER, STALE_BROKER_EPOCH, ..)."""
    match request:
        case RegisterBroker():
            return RegisterBrokerResponse(error_code=error_code, broker_epoch=-1)
        case BrokerHeartbeat():
            return BrokerHeartbeatResponse(
                error_code=error_code, is_caught_up=False, is_fenced=True, should_shut_down=False
            )
        case CreateTopics():
            return CreateTopicsResponse(error_code=error_code, topics=())
        case DeleteTopics():
            return DeleteTopicsResponse(error_code=error_code, topics=())
        case AlterPartition():
            return AlterPartitionResponse(error_code=error_code, partitions=())
        case AllocateProducerIds():
            return AllocateProducerIdsResponse(error_code=error_code, producer_id_start=-1, producer_id_count=0)
        case AlterConfigs():
            return AlterConfigsResponse(error_code=error_code, resources=())
        case CreatePartitions():
            return CreatePartitionsResponse(error_code=error_code, topics=())
        case ElectLeaders():
            return ElectLeadersResponse(error_code=error_code, partitions=())
        case CreateAcls():
            return CreateAclsResponse(error_code=error_code, results=())
        case DeleteAcls():
            return DeleteAclsResponse(error_code=error_code, results=())
        case AlterUserScramCredentials():
            return AlterUserScramCredentialsResponse(error_code=error_code, results=())
        case AlterPartitionReassignments():
            return AlterPartitionReassignmentsResponse(error_code=error_code, partitions=())
        case UnregisterBroker():
            return UnregisterBrokerResponse(error_code=error_code, error_message=None)
        case UpdateFeatures():
            return UpdateFeaturesResponse(error_code=error_code, error_message=None)
        case AssignReplicas():
            return AssignReplicasResponse(error_code=error_code, replicas=())
