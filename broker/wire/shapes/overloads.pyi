"""The types of `request`, `response` and `field_or` in broker/wire/messages.py.

Written by `python -m broker.wire.shape_writer`.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, TypeVar, Unpack, overload
from uuid import UUID

from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.shapes import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_share_group_offsets,
    alter_user_scram_credentials,
    api_versions,
    assign_replicas_to_dirs,
    begin_quorum_epoch,
    broker_heartbeat,
    broker_registration,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_share_group_state,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_share_group_offsets,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_quorum_epoch,
    end_txn,
    fetch,
    fetch_snapshot,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    initialize_share_group_state,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    read_share_group_state,
    read_share_group_state_summary,
    sasl_authenticate,
    sasl_handshake,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    vote,
    write_share_group_state,
    write_txn_markers,
)

Default = TypeVar("Default")

@overload
def request(
    api_key: Literal[ApiKey.PRODUCE], version: int, /, **values: Unpack[produce.ProduceRequestFields]
) -> produce.ProduceRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.FETCH], version: int, /, **values: Unpack[fetch.FetchRequestFields]
) -> fetch.FetchRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.LIST_OFFSETS], version: int, /, **values: Unpack[list_offsets.ListOffsetsRequestFields]
) -> list_offsets.ListOffsetsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.METADATA], version: int, /, **values: Unpack[metadata.MetadataRequestFields]
) -> metadata.MetadataRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.OFFSET_COMMIT], version: int, /, **values: Unpack[offset_commit.OffsetCommitRequestFields]
) -> offset_commit.OffsetCommitRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.OFFSET_FETCH], version: int, /, **values: Unpack[offset_fetch.OffsetFetchRequestFields]
) -> offset_fetch.OffsetFetchRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.FIND_COORDINATOR],
    version: int,
    /,
    **values: Unpack[find_coordinator.FindCoordinatorRequestFields],
) -> find_coordinator.FindCoordinatorRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.JOIN_GROUP], version: int, /, **values: Unpack[join_group.JoinGroupRequestFields]
) -> join_group.JoinGroupRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.HEARTBEAT], version: int, /, **values: Unpack[heartbeat.HeartbeatRequestFields]
) -> heartbeat.HeartbeatRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.LEAVE_GROUP], version: int, /, **values: Unpack[leave_group.LeaveGroupRequestFields]
) -> leave_group.LeaveGroupRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.SYNC_GROUP], version: int, /, **values: Unpack[sync_group.SyncGroupRequestFields]
) -> sync_group.SyncGroupRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.DESCRIBE_GROUPS],
    version: int,
    /,
    **values: Unpack[describe_groups.DescribeGroupsRequestFields],
) -> describe_groups.DescribeGroupsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.LIST_GROUPS], version: int, /, **values: Unpack[list_groups.ListGroupsRequestFields]
) -> list_groups.ListGroupsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.SASL_HANDSHAKE],
    version: int,
    /,
    **values: Unpack[sasl_handshake.SaslHandshakeRequestFields],
) -> sasl_handshake.SaslHandshakeRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.SASL_AUTHENTICATE],
    version: int,
    /,
    **values: Unpack[sasl_authenticate.SaslAuthenticateRequestFields],
) -> sasl_authenticate.SaslAuthenticateRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.API_VERSIONS], version: int, /, **values: Unpack[api_versions.ApiVersionsRequestFields]
) -> api_versions.ApiVersionsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.CREATE_TOPICS], version: int, /, **values: Unpack[create_topics.CreateTopicsRequestFields]
) -> create_topics.CreateTopicsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.DELETE_TOPICS], version: int, /, **values: Unpack[delete_topics.DeleteTopicsRequestFields]
) -> delete_topics.DeleteTopicsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.DELETE_RECORDS],
    version: int,
    /,
    **values: Unpack[delete_records.DeleteRecordsRequestFields],
) -> delete_records.DeleteRecordsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.INIT_PRODUCER_ID],
    version: int,
    /,
    **values: Unpack[init_producer_id.InitProducerIdRequestFields],
) -> init_producer_id.InitProducerIdRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.OFFSET_FOR_LEADER_EPOCH],
    version: int,
    /,
    **values: Unpack[offset_for_leader_epoch.OffsetForLeaderEpochRequestFields],
) -> offset_for_leader_epoch.OffsetForLeaderEpochRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.ADD_PARTITIONS_TO_TXN],
    version: int,
    /,
    **values: Unpack[add_partitions_to_txn.AddPartitionsToTxnRequestFields],
) -> add_partitions_to_txn.AddPartitionsToTxnRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.ADD_OFFSETS_TO_TXN],
    version: int,
    /,
    **values: Unpack[add_offsets_to_txn.AddOffsetsToTxnRequestFields],
) -> add_offsets_to_txn.AddOffsetsToTxnRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.END_TXN], version: int, /, **values: Unpack[end_txn.EndTxnRequestFields]
) -> end_txn.EndTxnRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.WRITE_TXN_MARKERS],
    version: int,
    /,
    **values: Unpack[write_txn_markers.WriteTxnMarkersRequestFields],
) -> write_txn_markers.WriteTxnMarkersRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.TXN_OFFSET_COMMIT],
    version: int,
    /,
    **values: Unpack[txn_offset_commit.TxnOffsetCommitRequestFields],
) -> txn_offset_commit.TxnOffsetCommitRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.DESCRIBE_ACLS], version: int, /, **values: Unpack[describe_acls.DescribeAclsRequestFields]
) -> describe_acls.DescribeAclsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.CREATE_ACLS], version: int, /, **values: Unpack[create_acls.CreateAclsRequestFields]
) -> create_acls.CreateAclsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.DELETE_ACLS], version: int, /, **values: Unpack[delete_acls.DeleteAclsRequestFields]
) -> delete_acls.DeleteAclsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.DESCRIBE_CONFIGS],
    version: int,
    /,
    **values: Unpack[describe_configs.DescribeConfigsRequestFields],
) -> describe_configs.DescribeConfigsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.ALTER_CONFIGS], version: int, /, **values: Unpack[alter_configs.AlterConfigsRequestFields]
) -> alter_configs.AlterConfigsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.ALTER_REPLICA_LOG_DIRS],
    version: int,
    /,
    **values: Unpack[alter_replica_log_dirs.AlterReplicaLogDirsRequestFields],
) -> alter_replica_log_dirs.AlterReplicaLogDirsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.DESCRIBE_LOG_DIRS],
    version: int,
    /,
    **values: Unpack[describe_log_dirs.DescribeLogDirsRequestFields],
) -> describe_log_dirs.DescribeLogDirsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.CREATE_PARTITIONS],
    version: int,
    /,
    **values: Unpack[create_partitions.CreatePartitionsRequestFields],
) -> create_partitions.CreatePartitionsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.ELECT_LEADERS], version: int, /, **values: Unpack[elect_leaders.ElectLeadersRequestFields]
) -> elect_leaders.ElectLeadersRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.INCREMENTAL_ALTER_CONFIGS],
    version: int,
    /,
    **values: Unpack[incremental_alter_configs.IncrementalAlterConfigsRequestFields],
) -> incremental_alter_configs.IncrementalAlterConfigsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.ALTER_PARTITION_REASSIGNMENTS],
    version: int,
    /,
    **values: Unpack[alter_partition_reassignments.AlterPartitionReassignmentsRequestFields],
) -> alter_partition_reassignments.AlterPartitionReassignmentsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.LIST_PARTITION_REASSIGNMENTS],
    version: int,
    /,
    **values: Unpack[list_partition_reassignments.ListPartitionReassignmentsRequestFields],
) -> list_partition_reassignments.ListPartitionReassignmentsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS],
    version: int,
    /,
    **values: Unpack[describe_user_scram_credentials.DescribeUserScramCredentialsRequestFields],
) -> describe_user_scram_credentials.DescribeUserScramCredentialsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.ALTER_USER_SCRAM_CREDENTIALS],
    version: int,
    /,
    **values: Unpack[alter_user_scram_credentials.AlterUserScramCredentialsRequestFields],
) -> alter_user_scram_credentials.AlterUserScramCredentialsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.DELETE_GROUPS], version: int, /, **values: Unpack[delete_groups.DeleteGroupsRequestFields]
) -> delete_groups.DeleteGroupsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.OFFSET_DELETE], version: int, /, **values: Unpack[offset_delete.OffsetDeleteRequestFields]
) -> offset_delete.OffsetDeleteRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.VOTE], version: int, /, **values: Unpack[vote.VoteRequestFields]
) -> vote.VoteRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.BEGIN_QUORUM_EPOCH],
    version: int,
    /,
    **values: Unpack[begin_quorum_epoch.BeginQuorumEpochRequestFields],
) -> begin_quorum_epoch.BeginQuorumEpochRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.END_QUORUM_EPOCH],
    version: int,
    /,
    **values: Unpack[end_quorum_epoch.EndQuorumEpochRequestFields],
) -> end_quorum_epoch.EndQuorumEpochRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.DESCRIBE_QUORUM],
    version: int,
    /,
    **values: Unpack[describe_quorum.DescribeQuorumRequestFields],
) -> describe_quorum.DescribeQuorumRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.ALTER_PARTITION],
    version: int,
    /,
    **values: Unpack[alter_partition.AlterPartitionRequestFields],
) -> alter_partition.AlterPartitionRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.UPDATE_FEATURES],
    version: int,
    /,
    **values: Unpack[update_features.UpdateFeaturesRequestFields],
) -> update_features.UpdateFeaturesRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.FETCH_SNAPSHOT],
    version: int,
    /,
    **values: Unpack[fetch_snapshot.FetchSnapshotRequestFields],
) -> fetch_snapshot.FetchSnapshotRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.DESCRIBE_CLUSTER],
    version: int,
    /,
    **values: Unpack[describe_cluster.DescribeClusterRequestFields],
) -> describe_cluster.DescribeClusterRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.DESCRIBE_PRODUCERS],
    version: int,
    /,
    **values: Unpack[describe_producers.DescribeProducersRequestFields],
) -> describe_producers.DescribeProducersRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.BROKER_REGISTRATION],
    version: int,
    /,
    **values: Unpack[broker_registration.BrokerRegistrationRequestFields],
) -> broker_registration.BrokerRegistrationRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.BROKER_HEARTBEAT],
    version: int,
    /,
    **values: Unpack[broker_heartbeat.BrokerHeartbeatRequestFields],
) -> broker_heartbeat.BrokerHeartbeatRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.UNREGISTER_BROKER],
    version: int,
    /,
    **values: Unpack[unregister_broker.UnregisterBrokerRequestFields],
) -> unregister_broker.UnregisterBrokerRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.DESCRIBE_TRANSACTIONS],
    version: int,
    /,
    **values: Unpack[describe_transactions.DescribeTransactionsRequestFields],
) -> describe_transactions.DescribeTransactionsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.LIST_TRANSACTIONS],
    version: int,
    /,
    **values: Unpack[list_transactions.ListTransactionsRequestFields],
) -> list_transactions.ListTransactionsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.ALLOCATE_PRODUCER_IDS],
    version: int,
    /,
    **values: Unpack[allocate_producer_ids.AllocateProducerIdsRequestFields],
) -> allocate_producer_ids.AllocateProducerIdsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.ASSIGN_REPLICAS_TO_DIRS],
    version: int,
    /,
    **values: Unpack[assign_replicas_to_dirs.AssignReplicasToDirsRequestFields],
) -> assign_replicas_to_dirs.AssignReplicasToDirsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.LIST_CONFIG_RESOURCES],
    version: int,
    /,
    **values: Unpack[list_config_resources.ListConfigResourcesRequestFields],
) -> list_config_resources.ListConfigResourcesRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.DESCRIBE_TOPIC_PARTITIONS],
    version: int,
    /,
    **values: Unpack[describe_topic_partitions.DescribeTopicPartitionsRequestFields],
) -> describe_topic_partitions.DescribeTopicPartitionsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.CONSUMER_GROUP_HEARTBEAT],
    version: int,
    /,
    **values: Unpack[consumer_group_heartbeat.ConsumerGroupHeartbeatRequestFields],
) -> consumer_group_heartbeat.ConsumerGroupHeartbeatRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.CONSUMER_GROUP_DESCRIBE],
    version: int,
    /,
    **values: Unpack[consumer_group_describe.ConsumerGroupDescribeRequestFields],
) -> consumer_group_describe.ConsumerGroupDescribeRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.SHARE_GROUP_HEARTBEAT],
    version: int,
    /,
    **values: Unpack[share_group_heartbeat.ShareGroupHeartbeatRequestFields],
) -> share_group_heartbeat.ShareGroupHeartbeatRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.SHARE_GROUP_DESCRIBE],
    version: int,
    /,
    **values: Unpack[share_group_describe.ShareGroupDescribeRequestFields],
) -> share_group_describe.ShareGroupDescribeRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.SHARE_FETCH], version: int, /, **values: Unpack[share_fetch.ShareFetchRequestFields]
) -> share_fetch.ShareFetchRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.SHARE_ACKNOWLEDGE],
    version: int,
    /,
    **values: Unpack[share_acknowledge.ShareAcknowledgeRequestFields],
) -> share_acknowledge.ShareAcknowledgeRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.INITIALIZE_SHARE_GROUP_STATE],
    version: int,
    /,
    **values: Unpack[initialize_share_group_state.InitializeShareGroupStateRequestFields],
) -> initialize_share_group_state.InitializeShareGroupStateRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.READ_SHARE_GROUP_STATE],
    version: int,
    /,
    **values: Unpack[read_share_group_state.ReadShareGroupStateRequestFields],
) -> read_share_group_state.ReadShareGroupStateRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.WRITE_SHARE_GROUP_STATE],
    version: int,
    /,
    **values: Unpack[write_share_group_state.WriteShareGroupStateRequestFields],
) -> write_share_group_state.WriteShareGroupStateRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.DELETE_SHARE_GROUP_STATE],
    version: int,
    /,
    **values: Unpack[delete_share_group_state.DeleteShareGroupStateRequestFields],
) -> delete_share_group_state.DeleteShareGroupStateRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.READ_SHARE_GROUP_STATE_SUMMARY],
    version: int,
    /,
    **values: Unpack[read_share_group_state_summary.ReadShareGroupStateSummaryRequestFields],
) -> read_share_group_state_summary.ReadShareGroupStateSummaryRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS],
    version: int,
    /,
    **values: Unpack[describe_share_group_offsets.DescribeShareGroupOffsetsRequestFields],
) -> describe_share_group_offsets.DescribeShareGroupOffsetsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.ALTER_SHARE_GROUP_OFFSETS],
    version: int,
    /,
    **values: Unpack[alter_share_group_offsets.AlterShareGroupOffsetsRequestFields],
) -> alter_share_group_offsets.AlterShareGroupOffsetsRequest: ...
@overload
def request(
    api_key: Literal[ApiKey.DELETE_SHARE_GROUP_OFFSETS],
    version: int,
    /,
    **values: Unpack[delete_share_group_offsets.DeleteShareGroupOffsetsRequestFields],
) -> delete_share_group_offsets.DeleteShareGroupOffsetsRequest: ...
@overload
def response(
    api_key: Literal[ApiKey.PRODUCE], version: int, /, **values: Unpack[produce.ProduceResponseFields]
) -> produce.ProduceResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.FETCH], version: int, /, **values: Unpack[fetch.FetchResponseFields]
) -> fetch.FetchResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.LIST_OFFSETS], version: int, /, **values: Unpack[list_offsets.ListOffsetsResponseFields]
) -> list_offsets.ListOffsetsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.METADATA], version: int, /, **values: Unpack[metadata.MetadataResponseFields]
) -> metadata.MetadataResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.OFFSET_COMMIT], version: int, /, **values: Unpack[offset_commit.OffsetCommitResponseFields]
) -> offset_commit.OffsetCommitResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.OFFSET_FETCH], version: int, /, **values: Unpack[offset_fetch.OffsetFetchResponseFields]
) -> offset_fetch.OffsetFetchResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.FIND_COORDINATOR],
    version: int,
    /,
    **values: Unpack[find_coordinator.FindCoordinatorResponseFields],
) -> find_coordinator.FindCoordinatorResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.JOIN_GROUP], version: int, /, **values: Unpack[join_group.JoinGroupResponseFields]
) -> join_group.JoinGroupResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.HEARTBEAT], version: int, /, **values: Unpack[heartbeat.HeartbeatResponseFields]
) -> heartbeat.HeartbeatResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.LEAVE_GROUP], version: int, /, **values: Unpack[leave_group.LeaveGroupResponseFields]
) -> leave_group.LeaveGroupResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.SYNC_GROUP], version: int, /, **values: Unpack[sync_group.SyncGroupResponseFields]
) -> sync_group.SyncGroupResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.DESCRIBE_GROUPS],
    version: int,
    /,
    **values: Unpack[describe_groups.DescribeGroupsResponseFields],
) -> describe_groups.DescribeGroupsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.LIST_GROUPS], version: int, /, **values: Unpack[list_groups.ListGroupsResponseFields]
) -> list_groups.ListGroupsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.SASL_HANDSHAKE],
    version: int,
    /,
    **values: Unpack[sasl_handshake.SaslHandshakeResponseFields],
) -> sasl_handshake.SaslHandshakeResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.SASL_AUTHENTICATE],
    version: int,
    /,
    **values: Unpack[sasl_authenticate.SaslAuthenticateResponseFields],
) -> sasl_authenticate.SaslAuthenticateResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.API_VERSIONS], version: int, /, **values: Unpack[api_versions.ApiVersionsResponseFields]
) -> api_versions.ApiVersionsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.CREATE_TOPICS], version: int, /, **values: Unpack[create_topics.CreateTopicsResponseFields]
) -> create_topics.CreateTopicsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.DELETE_TOPICS], version: int, /, **values: Unpack[delete_topics.DeleteTopicsResponseFields]
) -> delete_topics.DeleteTopicsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.DELETE_RECORDS],
    version: int,
    /,
    **values: Unpack[delete_records.DeleteRecordsResponseFields],
) -> delete_records.DeleteRecordsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.INIT_PRODUCER_ID],
    version: int,
    /,
    **values: Unpack[init_producer_id.InitProducerIdResponseFields],
) -> init_producer_id.InitProducerIdResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.OFFSET_FOR_LEADER_EPOCH],
    version: int,
    /,
    **values: Unpack[offset_for_leader_epoch.OffsetForLeaderEpochResponseFields],
) -> offset_for_leader_epoch.OffsetForLeaderEpochResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.ADD_PARTITIONS_TO_TXN],
    version: int,
    /,
    **values: Unpack[add_partitions_to_txn.AddPartitionsToTxnResponseFields],
) -> add_partitions_to_txn.AddPartitionsToTxnResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.ADD_OFFSETS_TO_TXN],
    version: int,
    /,
    **values: Unpack[add_offsets_to_txn.AddOffsetsToTxnResponseFields],
) -> add_offsets_to_txn.AddOffsetsToTxnResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.END_TXN], version: int, /, **values: Unpack[end_txn.EndTxnResponseFields]
) -> end_txn.EndTxnResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.WRITE_TXN_MARKERS],
    version: int,
    /,
    **values: Unpack[write_txn_markers.WriteTxnMarkersResponseFields],
) -> write_txn_markers.WriteTxnMarkersResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.TXN_OFFSET_COMMIT],
    version: int,
    /,
    **values: Unpack[txn_offset_commit.TxnOffsetCommitResponseFields],
) -> txn_offset_commit.TxnOffsetCommitResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.DESCRIBE_ACLS], version: int, /, **values: Unpack[describe_acls.DescribeAclsResponseFields]
) -> describe_acls.DescribeAclsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.CREATE_ACLS], version: int, /, **values: Unpack[create_acls.CreateAclsResponseFields]
) -> create_acls.CreateAclsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.DELETE_ACLS], version: int, /, **values: Unpack[delete_acls.DeleteAclsResponseFields]
) -> delete_acls.DeleteAclsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.DESCRIBE_CONFIGS],
    version: int,
    /,
    **values: Unpack[describe_configs.DescribeConfigsResponseFields],
) -> describe_configs.DescribeConfigsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.ALTER_CONFIGS], version: int, /, **values: Unpack[alter_configs.AlterConfigsResponseFields]
) -> alter_configs.AlterConfigsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.ALTER_REPLICA_LOG_DIRS],
    version: int,
    /,
    **values: Unpack[alter_replica_log_dirs.AlterReplicaLogDirsResponseFields],
) -> alter_replica_log_dirs.AlterReplicaLogDirsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.DESCRIBE_LOG_DIRS],
    version: int,
    /,
    **values: Unpack[describe_log_dirs.DescribeLogDirsResponseFields],
) -> describe_log_dirs.DescribeLogDirsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.CREATE_PARTITIONS],
    version: int,
    /,
    **values: Unpack[create_partitions.CreatePartitionsResponseFields],
) -> create_partitions.CreatePartitionsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.ELECT_LEADERS], version: int, /, **values: Unpack[elect_leaders.ElectLeadersResponseFields]
) -> elect_leaders.ElectLeadersResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.INCREMENTAL_ALTER_CONFIGS],
    version: int,
    /,
    **values: Unpack[incremental_alter_configs.IncrementalAlterConfigsResponseFields],
) -> incremental_alter_configs.IncrementalAlterConfigsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.ALTER_PARTITION_REASSIGNMENTS],
    version: int,
    /,
    **values: Unpack[alter_partition_reassignments.AlterPartitionReassignmentsResponseFields],
) -> alter_partition_reassignments.AlterPartitionReassignmentsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.LIST_PARTITION_REASSIGNMENTS],
    version: int,
    /,
    **values: Unpack[list_partition_reassignments.ListPartitionReassignmentsResponseFields],
) -> list_partition_reassignments.ListPartitionReassignmentsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS],
    version: int,
    /,
    **values: Unpack[describe_user_scram_credentials.DescribeUserScramCredentialsResponseFields],
) -> describe_user_scram_credentials.DescribeUserScramCredentialsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.ALTER_USER_SCRAM_CREDENTIALS],
    version: int,
    /,
    **values: Unpack[alter_user_scram_credentials.AlterUserScramCredentialsResponseFields],
) -> alter_user_scram_credentials.AlterUserScramCredentialsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.DELETE_GROUPS], version: int, /, **values: Unpack[delete_groups.DeleteGroupsResponseFields]
) -> delete_groups.DeleteGroupsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.OFFSET_DELETE], version: int, /, **values: Unpack[offset_delete.OffsetDeleteResponseFields]
) -> offset_delete.OffsetDeleteResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.VOTE], version: int, /, **values: Unpack[vote.VoteResponseFields]
) -> vote.VoteResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.BEGIN_QUORUM_EPOCH],
    version: int,
    /,
    **values: Unpack[begin_quorum_epoch.BeginQuorumEpochResponseFields],
) -> begin_quorum_epoch.BeginQuorumEpochResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.END_QUORUM_EPOCH],
    version: int,
    /,
    **values: Unpack[end_quorum_epoch.EndQuorumEpochResponseFields],
) -> end_quorum_epoch.EndQuorumEpochResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.DESCRIBE_QUORUM],
    version: int,
    /,
    **values: Unpack[describe_quorum.DescribeQuorumResponseFields],
) -> describe_quorum.DescribeQuorumResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.ALTER_PARTITION],
    version: int,
    /,
    **values: Unpack[alter_partition.AlterPartitionResponseFields],
) -> alter_partition.AlterPartitionResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.UPDATE_FEATURES],
    version: int,
    /,
    **values: Unpack[update_features.UpdateFeaturesResponseFields],
) -> update_features.UpdateFeaturesResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.FETCH_SNAPSHOT],
    version: int,
    /,
    **values: Unpack[fetch_snapshot.FetchSnapshotResponseFields],
) -> fetch_snapshot.FetchSnapshotResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.DESCRIBE_CLUSTER],
    version: int,
    /,
    **values: Unpack[describe_cluster.DescribeClusterResponseFields],
) -> describe_cluster.DescribeClusterResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.DESCRIBE_PRODUCERS],
    version: int,
    /,
    **values: Unpack[describe_producers.DescribeProducersResponseFields],
) -> describe_producers.DescribeProducersResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.BROKER_REGISTRATION],
    version: int,
    /,
    **values: Unpack[broker_registration.BrokerRegistrationResponseFields],
) -> broker_registration.BrokerRegistrationResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.BROKER_HEARTBEAT],
    version: int,
    /,
    **values: Unpack[broker_heartbeat.BrokerHeartbeatResponseFields],
) -> broker_heartbeat.BrokerHeartbeatResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.UNREGISTER_BROKER],
    version: int,
    /,
    **values: Unpack[unregister_broker.UnregisterBrokerResponseFields],
) -> unregister_broker.UnregisterBrokerResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.DESCRIBE_TRANSACTIONS],
    version: int,
    /,
    **values: Unpack[describe_transactions.DescribeTransactionsResponseFields],
) -> describe_transactions.DescribeTransactionsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.LIST_TRANSACTIONS],
    version: int,
    /,
    **values: Unpack[list_transactions.ListTransactionsResponseFields],
) -> list_transactions.ListTransactionsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.ALLOCATE_PRODUCER_IDS],
    version: int,
    /,
    **values: Unpack[allocate_producer_ids.AllocateProducerIdsResponseFields],
) -> allocate_producer_ids.AllocateProducerIdsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.ASSIGN_REPLICAS_TO_DIRS],
    version: int,
    /,
    **values: Unpack[assign_replicas_to_dirs.AssignReplicasToDirsResponseFields],
) -> assign_replicas_to_dirs.AssignReplicasToDirsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.LIST_CONFIG_RESOURCES],
    version: int,
    /,
    **values: Unpack[list_config_resources.ListConfigResourcesResponseFields],
) -> list_config_resources.ListConfigResourcesResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.DESCRIBE_TOPIC_PARTITIONS],
    version: int,
    /,
    **values: Unpack[describe_topic_partitions.DescribeTopicPartitionsResponseFields],
) -> describe_topic_partitions.DescribeTopicPartitionsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.CONSUMER_GROUP_HEARTBEAT],
    version: int,
    /,
    **values: Unpack[consumer_group_heartbeat.ConsumerGroupHeartbeatResponseFields],
) -> consumer_group_heartbeat.ConsumerGroupHeartbeatResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.CONSUMER_GROUP_DESCRIBE],
    version: int,
    /,
    **values: Unpack[consumer_group_describe.ConsumerGroupDescribeResponseFields],
) -> consumer_group_describe.ConsumerGroupDescribeResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.SHARE_GROUP_HEARTBEAT],
    version: int,
    /,
    **values: Unpack[share_group_heartbeat.ShareGroupHeartbeatResponseFields],
) -> share_group_heartbeat.ShareGroupHeartbeatResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.SHARE_GROUP_DESCRIBE],
    version: int,
    /,
    **values: Unpack[share_group_describe.ShareGroupDescribeResponseFields],
) -> share_group_describe.ShareGroupDescribeResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.SHARE_FETCH], version: int, /, **values: Unpack[share_fetch.ShareFetchResponseFields]
) -> share_fetch.ShareFetchResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.SHARE_ACKNOWLEDGE],
    version: int,
    /,
    **values: Unpack[share_acknowledge.ShareAcknowledgeResponseFields],
) -> share_acknowledge.ShareAcknowledgeResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.INITIALIZE_SHARE_GROUP_STATE],
    version: int,
    /,
    **values: Unpack[initialize_share_group_state.InitializeShareGroupStateResponseFields],
) -> initialize_share_group_state.InitializeShareGroupStateResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.READ_SHARE_GROUP_STATE],
    version: int,
    /,
    **values: Unpack[read_share_group_state.ReadShareGroupStateResponseFields],
) -> read_share_group_state.ReadShareGroupStateResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.WRITE_SHARE_GROUP_STATE],
    version: int,
    /,
    **values: Unpack[write_share_group_state.WriteShareGroupStateResponseFields],
) -> write_share_group_state.WriteShareGroupStateResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.DELETE_SHARE_GROUP_STATE],
    version: int,
    /,
    **values: Unpack[delete_share_group_state.DeleteShareGroupStateResponseFields],
) -> delete_share_group_state.DeleteShareGroupStateResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.READ_SHARE_GROUP_STATE_SUMMARY],
    version: int,
    /,
    **values: Unpack[read_share_group_state_summary.ReadShareGroupStateSummaryResponseFields],
) -> read_share_group_state_summary.ReadShareGroupStateSummaryResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS],
    version: int,
    /,
    **values: Unpack[describe_share_group_offsets.DescribeShareGroupOffsetsResponseFields],
) -> describe_share_group_offsets.DescribeShareGroupOffsetsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.ALTER_SHARE_GROUP_OFFSETS],
    version: int,
    /,
    **values: Unpack[alter_share_group_offsets.AlterShareGroupOffsetsResponseFields],
) -> alter_share_group_offsets.AlterShareGroupOffsetsResponse: ...
@overload
def response(
    api_key: Literal[ApiKey.DELETE_SHARE_GROUP_OFFSETS],
    version: int,
    /,
    **values: Unpack[delete_share_group_offsets.DeleteShareGroupOffsetsResponseFields],
) -> delete_share_group_offsets.DeleteShareGroupOffsetsResponse: ...
@overload
def field_or(message: produce.TopicProduceData, name: Literal["name"], default: Default, /) -> str | Default: ...
@overload
def field_or(message: produce.TopicProduceData, name: Literal["topic_id"], default: None, /) -> UUID | None: ...
@overload
def field_or(
    message: produce.TopicProduceData, name: Literal["topic_id"], default: Default, /
) -> UUID | Default | None: ...
@overload
def field_or(
    message: produce.PartitionProduceResponse, name: Literal["log_start_offset"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: produce.PartitionProduceResponse, name: Literal["record_errors"], default: Default, /
) -> tuple[produce.BatchIndexAndErrorMessage, ...] | Default: ...
@overload
def field_or(
    message: produce.PartitionProduceResponse, name: Literal["error_message"], default: None, /
) -> str | None: ...
@overload
def field_or(
    message: produce.PartitionProduceResponse, name: Literal["error_message"], default: Default, /
) -> str | Default | None: ...
@overload
def field_or(
    message: produce.PartitionProduceResponse, name: Literal["current_leader"], default: Default, /
) -> produce.LeaderIdAndEpoch | Default: ...
@overload
def field_or(message: produce.TopicProduceResponse, name: Literal["name"], default: Default, /) -> str | Default: ...
@overload
def field_or(message: produce.TopicProduceResponse, name: Literal["topic_id"], default: None, /) -> UUID | None: ...
@overload
def field_or(
    message: produce.TopicProduceResponse, name: Literal["topic_id"], default: Default, /
) -> UUID | Default | None: ...
@overload
def field_or(
    message: produce.ProduceResponse, name: Literal["node_endpoints"], default: Default, /
) -> tuple[produce.NodeEndpoint, ...] | Default: ...
@overload
def field_or(
    message: fetch.FetchPartition,
    name: Literal["log_start_offset", "current_leader_epoch", "last_fetched_epoch", "high_watermark"],
    default: Default,
    /,
) -> int | Default: ...
@overload
def field_or(message: fetch.FetchPartition, name: Literal["replica_directory_id"], default: None, /) -> UUID | None: ...
@overload
def field_or(
    message: fetch.FetchPartition, name: Literal["replica_directory_id"], default: Default, /
) -> UUID | Default | None: ...
@overload
def field_or(message: fetch.FetchTopic, name: Literal["topic"], default: Default, /) -> str | Default: ...
@overload
def field_or(message: fetch.FetchTopic, name: Literal["topic_id"], default: None, /) -> UUID | None: ...
@overload
def field_or(message: fetch.FetchTopic, name: Literal["topic_id"], default: Default, /) -> UUID | Default | None: ...
@overload
def field_or(message: fetch.ForgottenTopic, name: Literal["topic"], default: Default, /) -> str | Default: ...
@overload
def field_or(message: fetch.ForgottenTopic, name: Literal["topic_id"], default: None, /) -> UUID | None: ...
@overload
def field_or(
    message: fetch.ForgottenTopic, name: Literal["topic_id"], default: Default, /
) -> UUID | Default | None: ...
@overload
def field_or(
    message: fetch.FetchRequest, name: Literal["replica_id", "session_id", "session_epoch"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: fetch.FetchRequest, name: Literal["forgotten_topics_data"], default: Default, /
) -> Sequence[fetch.ForgottenTopic] | Default: ...
@overload
def field_or(message: fetch.FetchRequest, name: Literal["rack_id"], default: Default, /) -> str | Default: ...
@overload
def field_or(message: fetch.FetchRequest, name: Literal["cluster_id"], default: None, /) -> str | None: ...
@overload
def field_or(message: fetch.FetchRequest, name: Literal["cluster_id"], default: Default, /) -> str | Default | None: ...
@overload
def field_or(
    message: fetch.FetchRequest, name: Literal["replica_state"], default: Default, /
) -> fetch.ReplicaState | Default: ...
@overload
def field_or(
    message: fetch.PartitionData, name: Literal["log_start_offset", "preferred_read_replica"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: fetch.PartitionData, name: Literal["diverging_epoch"], default: Default, /
) -> fetch.EpochEndOffset | Default: ...
@overload
def field_or(
    message: fetch.PartitionData, name: Literal["current_leader"], default: Default, /
) -> fetch.LeaderIdAndEpoch | Default: ...
@overload
def field_or(
    message: fetch.PartitionData, name: Literal["snapshot_id"], default: Default, /
) -> fetch.SnapshotId | Default: ...
@overload
def field_or(message: fetch.FetchableTopicResponse, name: Literal["topic"], default: Default, /) -> str | Default: ...
@overload
def field_or(message: fetch.FetchableTopicResponse, name: Literal["topic_id"], default: None, /) -> UUID | None: ...
@overload
def field_or(
    message: fetch.FetchableTopicResponse, name: Literal["topic_id"], default: Default, /
) -> UUID | Default | None: ...
@overload
def field_or(message: fetch.FetchResponse, name: Literal["error_code"], default: Default, /) -> ErrorCode | Default: ...
@overload
def field_or(message: fetch.FetchResponse, name: Literal["session_id"], default: Default, /) -> int | Default: ...
@overload
def field_or(
    message: fetch.FetchResponse, name: Literal["node_endpoints"], default: Default, /
) -> tuple[fetch.NodeEndpoint, ...] | Default: ...
@overload
def field_or(
    message: list_offsets.ListOffsetsPartition, name: Literal["current_leader_epoch"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: list_offsets.ListOffsetsRequest, name: Literal["isolation_level"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: list_offsets.ListOffsetsRequest, name: Literal["timeout"], default: Default, /
) -> timedelta | Default: ...
@overload
def field_or(
    message: list_offsets.ListOffsetsPartitionResponse, name: Literal["leader_epoch"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: list_offsets.ListOffsetsResponse, name: Literal["throttle_time"], default: Default, /
) -> timedelta | Default: ...
@overload
def field_or(message: metadata.MetadataRequestTopic, name: Literal["topic_id"], default: None, /) -> UUID | None: ...
@overload
def field_or(
    message: metadata.MetadataRequestTopic, name: Literal["topic_id"], default: Default, /
) -> UUID | Default | None: ...
@overload
def field_or(
    message: metadata.MetadataRequest,
    name: Literal["allow_auto_topic_creation", "include_cluster_authorized_operations"],
    default: Default,
    /,
) -> bool | Default: ...
@overload
def field_or(
    message: metadata.MetadataRequest, name: Literal["include_topic_authorized_operations"], default: Default, /
) -> bool | Default: ...
@overload
def field_or(message: metadata.MetadataResponseBroker, name: Literal["rack"], default: None, /) -> str | None: ...
@overload
def field_or(
    message: metadata.MetadataResponseBroker, name: Literal["rack"], default: Default, /
) -> str | Default | None: ...
@overload
def field_or(
    message: metadata.MetadataResponsePartition, name: Literal["offline_replicas"], default: Default, /
) -> tuple[int, ...] | Default: ...
@overload
def field_or(
    message: metadata.MetadataResponsePartition, name: Literal["leader_epoch"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: metadata.MetadataResponseTopic, name: Literal["is_internal"], default: Default, /
) -> bool | Default: ...
@overload
def field_or(
    message: metadata.MetadataResponseTopic, name: Literal["topic_authorized_operations"], default: Default, /
) -> int | Default: ...
@overload
def field_or(message: metadata.MetadataResponseTopic, name: Literal["topic_id"], default: None, /) -> UUID | None: ...
@overload
def field_or(
    message: metadata.MetadataResponseTopic, name: Literal["topic_id"], default: Default, /
) -> UUID | Default | None: ...
@overload
def field_or(
    message: metadata.MetadataResponse,
    name: Literal["controller_id", "cluster_authorized_operations"],
    default: Default,
    /,
) -> int | Default: ...
@overload
def field_or(message: metadata.MetadataResponse, name: Literal["cluster_id"], default: None, /) -> str | None: ...
@overload
def field_or(
    message: metadata.MetadataResponse, name: Literal["cluster_id"], default: Default, /
) -> str | Default | None: ...
@overload
def field_or(
    message: metadata.MetadataResponse, name: Literal["throttle_time"], default: Default, /
) -> timedelta | Default: ...
@overload
def field_or(
    message: metadata.MetadataResponse, name: Literal["error_code"], default: Default, /
) -> ErrorCode | Default: ...
@overload
def field_or(
    message: offset_commit.OffsetCommitRequestPartition, name: Literal["committed_leader_epoch"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: offset_commit.OffsetCommitRequestTopic, name: Literal["name"], default: Default, /
) -> str | Default: ...
@overload
def field_or(
    message: offset_commit.OffsetCommitRequestTopic, name: Literal["topic_id"], default: None, /
) -> UUID | None: ...
@overload
def field_or(
    message: offset_commit.OffsetCommitRequestTopic, name: Literal["topic_id"], default: Default, /
) -> UUID | Default | None: ...
@overload
def field_or(
    message: offset_commit.OffsetCommitRequest, name: Literal["retention_time"], default: Default, /
) -> timedelta | Default: ...
@overload
def field_or(
    message: offset_commit.OffsetCommitRequest, name: Literal["group_instance_id"], default: None, /
) -> str | None: ...
@overload
def field_or(
    message: offset_commit.OffsetCommitRequest, name: Literal["group_instance_id"], default: Default, /
) -> str | Default | None: ...
@overload
def field_or(
    message: offset_commit.OffsetCommitResponseTopic, name: Literal["name"], default: Default, /
) -> str | Default: ...
@overload
def field_or(
    message: offset_commit.OffsetCommitResponseTopic, name: Literal["topic_id"], default: None, /
) -> UUID | None: ...
@overload
def field_or(
    message: offset_commit.OffsetCommitResponseTopic, name: Literal["topic_id"], default: Default, /
) -> UUID | Default | None: ...
@overload
def field_or(
    message: offset_commit.OffsetCommitResponse, name: Literal["throttle_time"], default: Default, /
) -> timedelta | Default: ...
@overload
def field_or(
    message: offset_fetch.OffsetFetchRequestTopics, name: Literal["name"], default: Default, /
) -> str | Default: ...
@overload
def field_or(
    message: offset_fetch.OffsetFetchRequestTopics, name: Literal["topic_id"], default: None, /
) -> UUID | None: ...
@overload
def field_or(
    message: offset_fetch.OffsetFetchRequestTopics, name: Literal["topic_id"], default: Default, /
) -> UUID | Default | None: ...
@overload
def field_or(
    message: offset_fetch.OffsetFetchRequestGroup, name: Literal["member_id"], default: None, /
) -> str | None: ...
@overload
def field_or(
    message: offset_fetch.OffsetFetchRequestGroup, name: Literal["member_id"], default: Default, /
) -> str | Default | None: ...
@overload
def field_or(
    message: offset_fetch.OffsetFetchRequestGroup, name: Literal["member_epoch"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: offset_fetch.OffsetFetchRequest, name: Literal["group_id"], default: Default, /
) -> str | Default: ...
@overload
def field_or(
    message: offset_fetch.OffsetFetchRequest, name: Literal["topics"], default: None, /
) -> tuple[offset_fetch.OffsetFetchRequestTopic, ...] | None: ...
@overload
def field_or(
    message: offset_fetch.OffsetFetchRequest, name: Literal["topics"], default: Default, /
) -> tuple[offset_fetch.OffsetFetchRequestTopic, ...] | Default | None: ...
@overload
def field_or(
    message: offset_fetch.OffsetFetchRequest, name: Literal["require_stable"], default: Default, /
) -> bool | Default: ...
@overload
def field_or(
    message: offset_fetch.OffsetFetchRequest, name: Literal["groups"], default: Default, /
) -> tuple[offset_fetch.OffsetFetchRequestGroup, ...] | Default: ...
@overload
def field_or(
    message: offset_fetch.OffsetFetchResponsePartition, name: Literal["committed_leader_epoch"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: offset_fetch.OffsetFetchResponseTopics, name: Literal["name"], default: Default, /
) -> str | Default: ...
@overload
def field_or(
    message: offset_fetch.OffsetFetchResponseTopics, name: Literal["topic_id"], default: None, /
) -> UUID | None: ...
@overload
def field_or(
    message: offset_fetch.OffsetFetchResponseTopics, name: Literal["topic_id"], default: Default, /
) -> UUID | Default | None: ...
@overload
def field_or(
    message: offset_fetch.OffsetFetchResponse, name: Literal["topics"], default: Default, /
) -> tuple[offset_fetch.OffsetFetchResponseTopic, ...] | Default: ...
@overload
def field_or(
    message: offset_fetch.OffsetFetchResponse, name: Literal["error_code"], default: Default, /
) -> ErrorCode | Default: ...
@overload
def field_or(
    message: offset_fetch.OffsetFetchResponse, name: Literal["throttle_time"], default: Default, /
) -> timedelta | Default: ...
@overload
def field_or(
    message: offset_fetch.OffsetFetchResponse, name: Literal["groups"], default: Default, /
) -> tuple[offset_fetch.OffsetFetchResponseGroup, ...] | Default: ...
@overload
def field_or(
    message: find_coordinator.FindCoordinatorRequest, name: Literal["key"], default: Default, /
) -> str | Default: ...
@overload
def field_or(
    message: find_coordinator.FindCoordinatorRequest, name: Literal["key_type"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: find_coordinator.FindCoordinatorRequest, name: Literal["coordinator_keys"], default: Default, /
) -> tuple[str, ...] | Default: ...
@overload
def field_or(
    message: find_coordinator.FindCoordinatorResponse, name: Literal["error_code"], default: Default, /
) -> ErrorCode | Default: ...
@overload
def field_or(
    message: find_coordinator.FindCoordinatorResponse, name: Literal["node_id", "port"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: find_coordinator.FindCoordinatorResponse, name: Literal["host"], default: Default, /
) -> str | Default: ...
@overload
def field_or(
    message: find_coordinator.FindCoordinatorResponse, name: Literal["throttle_time"], default: Default, /
) -> timedelta | Default: ...
@overload
def field_or(
    message: find_coordinator.FindCoordinatorResponse, name: Literal["error_message"], default: None, /
) -> str | None: ...
@overload
def field_or(
    message: find_coordinator.FindCoordinatorResponse, name: Literal["error_message"], default: Default, /
) -> str | Default | None: ...
@overload
def field_or(
    message: find_coordinator.FindCoordinatorResponse, name: Literal["coordinators"], default: Default, /
) -> tuple[find_coordinator.Coordinator, ...] | Default: ...
@overload
def field_or(
    message: join_group.JoinGroupRequest, name: Literal["rebalance_timeout"], default: Default, /
) -> timedelta | Default: ...
@overload
def field_or(
    message: join_group.JoinGroupRequest, name: Literal["group_instance_id", "reason"], default: None, /
) -> str | None: ...
@overload
def field_or(
    message: join_group.JoinGroupRequest, name: Literal["group_instance_id", "reason"], default: Default, /
) -> str | Default | None: ...
@overload
def field_or(
    message: join_group.JoinGroupResponseMember, name: Literal["group_instance_id"], default: None, /
) -> str | None: ...
@overload
def field_or(
    message: join_group.JoinGroupResponseMember, name: Literal["group_instance_id"], default: Default, /
) -> str | Default | None: ...
@overload
def field_or(
    message: join_group.JoinGroupResponse, name: Literal["throttle_time"], default: Default, /
) -> timedelta | Default: ...
@overload
def field_or(message: join_group.JoinGroupResponse, name: Literal["protocol_type"], default: None, /) -> str | None: ...
@overload
def field_or(
    message: join_group.JoinGroupResponse, name: Literal["protocol_type"], default: Default, /
) -> str | Default | None: ...
@overload
def field_or(
    message: join_group.JoinGroupResponse, name: Literal["skip_assignment"], default: Default, /
) -> bool | Default: ...
@overload
def field_or(
    message: heartbeat.HeartbeatRequest, name: Literal["group_instance_id"], default: None, /
) -> str | None: ...
@overload
def field_or(
    message: heartbeat.HeartbeatRequest, name: Literal["group_instance_id"], default: Default, /
) -> str | Default | None: ...
@overload
def field_or(
    message: heartbeat.HeartbeatResponse, name: Literal["throttle_time"], default: Default, /
) -> timedelta | Default: ...
@overload
def field_or(message: leave_group.MemberIdentity, name: Literal["reason"], default: None, /) -> str | None: ...
@overload
def field_or(
    message: leave_group.MemberIdentity, name: Literal["reason"], default: Default, /
) -> str | Default | None: ...
@overload
def field_or(
    message: leave_group.LeaveGroupRequest, name: Literal["member_id"], default: Default, /
) -> str | Default: ...
@overload
def field_or(
    message: leave_group.LeaveGroupRequest, name: Literal["members"], default: Default, /
) -> tuple[leave_group.MemberIdentity, ...] | Default: ...
@overload
def field_or(
    message: leave_group.LeaveGroupResponse, name: Literal["throttle_time"], default: Default, /
) -> timedelta | Default: ...
@overload
def field_or(
    message: leave_group.LeaveGroupResponse, name: Literal["members"], default: Default, /
) -> tuple[leave_group.MemberResponse, ...] | Default: ...
@overload
def field_or(
    message: sync_group.SyncGroupRequest,
    name: Literal["group_instance_id", "protocol_type", "protocol_name"],
    default: None,
    /,
) -> str | None: ...
@overload
def field_or(
    message: sync_group.SyncGroupRequest,
    name: Literal["group_instance_id", "protocol_type", "protocol_name"],
    default: Default,
    /,
) -> str | Default | None: ...
@overload
def field_or(
    message: sync_group.SyncGroupResponse, name: Literal["throttle_time"], default: Default, /
) -> timedelta | Default: ...
@overload
def field_or(
    message: sync_group.SyncGroupResponse, name: Literal["protocol_type", "protocol_name"], default: None, /
) -> str | None: ...
@overload
def field_or(
    message: sync_group.SyncGroupResponse, name: Literal["protocol_type", "protocol_name"], default: Default, /
) -> str | Default | None: ...
@overload
def field_or(
    message: describe_groups.DescribeGroupsRequest, name: Literal["include_authorized_operations"], default: Default, /
) -> bool | Default: ...
@overload
def field_or(
    message: describe_groups.DescribedGroupMember, name: Literal["group_instance_id"], default: None, /
) -> str | None: ...
@overload
def field_or(
    message: describe_groups.DescribedGroupMember, name: Literal["group_instance_id"], default: Default, /
) -> str | Default | None: ...
@overload
def field_or(
    message: describe_groups.DescribedGroup, name: Literal["authorized_operations"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: describe_groups.DescribedGroup, name: Literal["error_message"], default: None, /
) -> str | None: ...
@overload
def field_or(
    message: describe_groups.DescribedGroup, name: Literal["error_message"], default: Default, /
) -> str | Default | None: ...
@overload
def field_or(
    message: describe_groups.DescribeGroupsResponse, name: Literal["throttle_time"], default: Default, /
) -> timedelta | Default: ...
@overload
def field_or(
    message: list_groups.ListGroupsRequest, name: Literal["states_filter", "types_filter"], default: Default, /
) -> tuple[str, ...] | Default: ...
@overload
def field_or(
    message: list_groups.ListedGroup, name: Literal["group_state", "group_type"], default: Default, /
) -> str | Default: ...
@overload
def field_or(
    message: list_groups.ListGroupsResponse, name: Literal["throttle_time"], default: Default, /
) -> timedelta | Default: ...
@overload
def field_or(
    message: sasl_authenticate.SaslAuthenticateResponse, name: Literal["session_lifetime"], default: Default, /
) -> timedelta | Default: ...
@overload
def field_or(
    message: api_versions.ApiVersionsRequest,
    name: Literal["client_software_name", "client_software_version"],
    default: Default,
    /,
) -> str | Default: ...
@overload
def field_or(
    message: api_versions.ApiVersionsResponse, name: Literal["throttle_time"], default: Default, /
) -> timedelta | Default: ...
@overload
def field_or(
    message: api_versions.ApiVersionsResponse, name: Literal["supported_features"], default: Default, /
) -> tuple[api_versions.SupportedFeatureKey, ...] | Default: ...
@overload
def field_or(
    message: api_versions.ApiVersionsResponse, name: Literal["finalized_features_epoch"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: api_versions.ApiVersionsResponse, name: Literal["finalized_features"], default: Default, /
) -> tuple[api_versions.FinalizedFeatureKey, ...] | Default: ...
@overload
def field_or(
    message: api_versions.ApiVersionsResponse, name: Literal["zk_migration_ready"], default: Default, /
) -> bool | Default: ...
@overload
def field_or(
    message: create_topics.CreatableTopicResult,
    name: Literal["topic_config_error_code", "num_partitions", "replication_factor"],
    default: Default,
    /,
) -> int | Default: ...
@overload
def field_or(
    message: create_topics.CreatableTopicResult, name: Literal["configs"], default: None, /
) -> tuple[create_topics.CreatableTopicConfigs, ...] | None: ...
@overload
def field_or(
    message: create_topics.CreatableTopicResult, name: Literal["configs"], default: Default, /
) -> tuple[create_topics.CreatableTopicConfigs, ...] | Default | None: ...
@overload
def field_or(
    message: create_topics.CreatableTopicResult, name: Literal["topic_id"], default: None, /
) -> UUID | None: ...
@overload
def field_or(
    message: create_topics.CreatableTopicResult, name: Literal["topic_id"], default: Default, /
) -> UUID | Default | None: ...
@overload
def field_or(
    message: delete_topics.DeleteTopicsRequest, name: Literal["topic_names"], default: Default, /
) -> tuple[str, ...] | Default: ...
@overload
def field_or(
    message: delete_topics.DeleteTopicsRequest, name: Literal["topics"], default: Default, /
) -> tuple[delete_topics.DeleteTopicState, ...] | Default: ...
@overload
def field_or(
    message: delete_topics.DeletableTopicResult, name: Literal["error_message"], default: None, /
) -> str | None: ...
@overload
def field_or(
    message: delete_topics.DeletableTopicResult, name: Literal["error_message"], default: Default, /
) -> str | Default | None: ...
@overload
def field_or(
    message: delete_topics.DeletableTopicResult, name: Literal["topic_id"], default: None, /
) -> UUID | None: ...
@overload
def field_or(
    message: delete_topics.DeletableTopicResult, name: Literal["topic_id"], default: Default, /
) -> UUID | Default | None: ...
@overload
def field_or(
    message: init_producer_id.InitProducerIdRequest, name: Literal["producer_id", "producer_epoch"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: offset_for_leader_epoch.OffsetForLeaderEpochRequest, name: Literal["replica_id"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: add_partitions_to_txn.AddPartitionsToTxnRequest,
    name: Literal["v3_and_below_transactional_id"],
    default: Default,
    /,
) -> str | Default: ...
@overload
def field_or(
    message: add_partitions_to_txn.AddPartitionsToTxnRequest,
    name: Literal["v3_and_below_producer_id", "v3_and_below_producer_epoch"],
    default: Default,
    /,
) -> int | Default: ...
@overload
def field_or(
    message: add_partitions_to_txn.AddPartitionsToTxnRequest, name: Literal["v3_and_below_topics"], default: Default, /
) -> tuple[add_partitions_to_txn.AddPartitionsToTxnTopic, ...] | Default: ...
@overload
def field_or(
    message: add_partitions_to_txn.AddPartitionsToTxnRequest, name: Literal["transactions"], default: Default, /
) -> tuple[add_partitions_to_txn.AddPartitionsToTxnTransaction, ...] | Default: ...
@overload
def field_or(
    message: add_partitions_to_txn.AddPartitionsToTxnResponse,
    name: Literal["results_by_topic_v3_and_below"],
    default: Default,
    /,
) -> tuple[add_partitions_to_txn.AddPartitionsToTxnTopicResult, ...] | Default: ...
@overload
def field_or(
    message: add_partitions_to_txn.AddPartitionsToTxnResponse, name: Literal["error_code"], default: Default, /
) -> ErrorCode | Default: ...
@overload
def field_or(
    message: add_partitions_to_txn.AddPartitionsToTxnResponse,
    name: Literal["results_by_transaction"],
    default: Default,
    /,
) -> tuple[add_partitions_to_txn.AddPartitionsToTxnResult, ...] | Default: ...
@overload
def field_or(
    message: end_txn.EndTxnResponse, name: Literal["producer_id", "producer_epoch"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: write_txn_markers.WritableTxnMarker, name: Literal["transaction_version"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: txn_offset_commit.TxnOffsetCommitRequestPartition,
    name: Literal["committed_leader_epoch"],
    default: Default,
    /,
) -> int | Default: ...
@overload
def field_or(
    message: txn_offset_commit.TxnOffsetCommitRequest, name: Literal["generation_id"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: txn_offset_commit.TxnOffsetCommitRequest, name: Literal["member_id"], default: Default, /
) -> str | Default: ...
@overload
def field_or(
    message: txn_offset_commit.TxnOffsetCommitRequest, name: Literal["group_instance_id"], default: None, /
) -> str | None: ...
@overload
def field_or(
    message: txn_offset_commit.TxnOffsetCommitRequest, name: Literal["group_instance_id"], default: Default, /
) -> str | Default | None: ...
@overload
def field_or(
    message: describe_configs.DescribeConfigsRequest, name: Literal["include_documentation"], default: Default, /
) -> bool | Default: ...
@overload
def field_or(
    message: describe_configs.DescribeConfigsResourceResult, name: Literal["config_type"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: describe_configs.DescribeConfigsResourceResult, name: Literal["documentation"], default: None, /
) -> str | None: ...
@overload
def field_or(
    message: describe_configs.DescribeConfigsResourceResult, name: Literal["documentation"], default: Default, /
) -> str | Default | None: ...
@overload
def field_or(
    message: describe_log_dirs.DescribeLogDirsResult, name: Literal["total_bytes", "usable_bytes"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: describe_log_dirs.DescribeLogDirsResult, name: Literal["is_cordoned"], default: Default, /
) -> bool | Default: ...
@overload
def field_or(
    message: describe_log_dirs.DescribeLogDirsResponse, name: Literal["error_code"], default: Default, /
) -> ErrorCode | Default: ...
@overload
def field_or(
    message: elect_leaders.ElectLeadersRequest, name: Literal["election_type"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: elect_leaders.ElectLeadersResponse, name: Literal["error_code"], default: Default, /
) -> ErrorCode | Default: ...
@overload
def field_or(
    message: alter_partition_reassignments.AlterPartitionReassignmentsRequest,
    name: Literal["allow_replication_factor_change"],
    default: Default,
    /,
) -> bool | Default: ...
@overload
def field_or(
    message: alter_partition_reassignments.AlterPartitionReassignmentsResponse,
    name: Literal["allow_replication_factor_change"],
    default: Default,
    /,
) -> bool | Default: ...
@overload
def field_or(
    message: describe_quorum.ReplicaState,
    name: Literal["last_fetch_timestamp", "last_caught_up_timestamp"],
    default: Default,
    /,
) -> int | Default: ...
@overload
def field_or(
    message: describe_quorum.ReplicaState, name: Literal["replica_directory_id"], default: None, /
) -> UUID | None: ...
@overload
def field_or(
    message: describe_quorum.ReplicaState, name: Literal["replica_directory_id"], default: Default, /
) -> UUID | Default | None: ...
@overload
def field_or(
    message: describe_quorum.AnsweredPartitionData, name: Literal["error_message"], default: None, /
) -> str | None: ...
@overload
def field_or(
    message: describe_quorum.AnsweredPartitionData, name: Literal["error_message"], default: Default, /
) -> str | Default | None: ...
@overload
def field_or(
    message: describe_quorum.DescribeQuorumResponse, name: Literal["error_message"], default: None, /
) -> str | None: ...
@overload
def field_or(
    message: describe_quorum.DescribeQuorumResponse, name: Literal["error_message"], default: Default, /
) -> str | Default | None: ...
@overload
def field_or(
    message: describe_quorum.DescribeQuorumResponse, name: Literal["nodes"], default: Default, /
) -> tuple[describe_quorum.Node, ...] | Default: ...
@overload
def field_or(
    message: update_features.FeatureUpdateKey, name: Literal["allow_downgrade"], default: Default, /
) -> bool | Default: ...
@overload
def field_or(
    message: update_features.FeatureUpdateKey, name: Literal["upgrade_type"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: update_features.UpdateFeaturesRequest, name: Literal["validate_only"], default: Default, /
) -> bool | Default: ...
@overload
def field_or(
    message: update_features.UpdateFeaturesResponse, name: Literal["results"], default: Default, /
) -> tuple[update_features.UpdatableFeatureResult, ...] | Default: ...
@overload
def field_or(
    message: describe_cluster.DescribeClusterRequest, name: Literal["endpoint_type"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: describe_cluster.DescribeClusterRequest, name: Literal["include_fenced_brokers"], default: Default, /
) -> bool | Default: ...
@overload
def field_or(
    message: describe_cluster.DescribeClusterBroker, name: Literal["is_fenced"], default: Default, /
) -> bool | Default: ...
@overload
def field_or(
    message: describe_cluster.DescribeClusterResponse, name: Literal["endpoint_type"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: list_transactions.ListTransactionsRequest, name: Literal["duration_filter"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: list_transactions.ListTransactionsRequest, name: Literal["transactional_id_pattern"], default: None, /
) -> str | None: ...
@overload
def field_or(
    message: list_transactions.ListTransactionsRequest, name: Literal["transactional_id_pattern"], default: Default, /
) -> str | Default | None: ...
@overload
def field_or(
    message: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest,
    name: Literal["subscribed_topic_regex"],
    default: None,
    /,
) -> str | None: ...
@overload
def field_or(
    message: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest,
    name: Literal["subscribed_topic_regex"],
    default: Default,
    /,
) -> str | Default | None: ...
@overload
def field_or(
    message: consumer_group_describe.Member, name: Literal["member_type"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: share_fetch.ShareFetchRequest, name: Literal["share_acquire_mode"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: share_fetch.ShareFetchRequest, name: Literal["is_renew_ack"], default: Default, /
) -> bool | Default: ...
@overload
def field_or(
    message: share_acknowledge.ShareAcknowledgeRequest, name: Literal["is_renew_ack"], default: Default, /
) -> bool | Default: ...
@overload
def field_or(
    message: share_acknowledge.ShareAcknowledgeResponse, name: Literal["acquisition_lock_timeout"], default: Default, /
) -> timedelta | Default: ...
@overload
def field_or(
    message: write_share_group_state.PartitionData, name: Literal["delivery_complete_count"], default: Default, /
) -> int | Default: ...
@overload
def field_or(
    message: read_share_group_state_summary.PartitionResult,
    name: Literal["delivery_complete_count"],
    default: Default,
    /,
) -> int | Default: ...
@overload
def field_or(
    message: describe_share_group_offsets.DescribeShareGroupOffsetsResponsePartition,
    name: Literal["lag"],
    default: Default,
    /,
) -> int | Default: ...
