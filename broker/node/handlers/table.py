"""The handler table: for each API the function that answers it, and whether it is forwarded to the active controller
(rows.py). These are the APIs of the kernel; features bring theirs (broker/node/api_table.py).

A handler is `handle(services, request)`. It answers the request, at once or later. When it returns, it must not need
the request's records any more, because they are in the receive buffer. There is one file for each API, named by its
key.
"""

from __future__ import annotations

from typing import Any

from broker.node.handlers import (
    api_00_produce,
    api_01_fetch,
    api_02_list_offsets,
    api_03_metadata,
    api_08_offset_commit,
    api_09_offset_fetch,
    api_10_find_coordinator,
    api_11_join_group,
    api_12_heartbeat,
    api_13_leave_group,
    api_14_sync_group,
    api_15_describe_groups,
    api_16_list_groups,
    api_17_sasl_handshake,
    api_18_api_versions,
    api_19_create_topics,
    api_20_delete_topics,
    api_21_delete_records,
    api_22_init_producer_id,
    api_23_offset_for_leader_epoch,
    api_24_add_partitions_to_txn,
    api_25_add_offsets_to_txn,
    api_26_end_txn,
    api_27_write_txn_markers,
    api_28_txn_offset_commit,
    api_29_describe_acls,
    api_30_create_acls,
    api_31_delete_acls,
    api_32_describe_configs,
    api_33_alter_configs,
    api_36_sasl_authenticate,
    api_37_create_partitions,
    api_42_delete_groups,
    api_43_elect_leaders,
    api_44_incremental_alter_configs,
    api_45_alter_partition_reassignments,
    api_46_list_partition_reassignments,
    api_47_offset_delete,
    api_50_describe_user_scram_credentials,
    api_51_alter_user_scram_credentials,
    api_55_describe_quorum,
    api_56_alter_partition,
    api_57_update_features,
    api_60_describe_cluster,
    api_61_describe_producers,
    api_62_broker_registration,
    api_63_broker_heartbeat,
    api_64_unregister_broker,
    api_65_describe_transactions,
    api_66_list_transactions,
    api_67_allocate_producer_ids,
    api_68_consumer_group_heartbeat,
    api_69_consumer_group_describe,
    api_73_assign_replicas_to_dirs,
    api_74_list_config_resources,
    api_75_describe_topic_partitions,
    voters,
)
from broker.node.handlers.rows import Row
from broker.wire.apis import ApiKey

TABLE: dict[ApiKey, Row[Any]] = {
    ApiKey.PRODUCE: Row(handle=api_00_produce.handle),
    ApiKey.FETCH: Row(handle=api_01_fetch.handle),
    ApiKey.LIST_OFFSETS: Row(handle=api_02_list_offsets.handle),
    ApiKey.METADATA: Row(handle=api_03_metadata.handle),
    ApiKey.OFFSET_COMMIT: Row(handle=api_08_offset_commit.handle),
    ApiKey.OFFSET_FETCH: Row(handle=api_09_offset_fetch.handle),
    ApiKey.FIND_COORDINATOR: Row(handle=api_10_find_coordinator.handle),
    ApiKey.JOIN_GROUP: Row(handle=api_11_join_group.handle),
    ApiKey.HEARTBEAT: Row(handle=api_12_heartbeat.handle),
    ApiKey.LEAVE_GROUP: Row(handle=api_13_leave_group.handle),
    ApiKey.SYNC_GROUP: Row(handle=api_14_sync_group.handle),
    ApiKey.DESCRIBE_GROUPS: Row(handle=api_15_describe_groups.handle),
    ApiKey.LIST_GROUPS: Row(handle=api_16_list_groups.handle),
    ApiKey.SASL_HANDSHAKE: Row(handle=api_17_sasl_handshake.handle),
    ApiKey.API_VERSIONS: Row(handle=api_18_api_versions.handle),
    ApiKey.CREATE_TOPICS: Row(controller=api_19_create_topics.CONTROLLER, forward=api_19_create_topics.FORWARD),
    ApiKey.DELETE_TOPICS: Row(
        controller=api_20_delete_topics.CONTROLLER,
        forward=api_20_delete_topics.FORWARD,
        refusal=api_20_delete_topics.refusal,
    ),
    ApiKey.DELETE_RECORDS: Row(handle=api_21_delete_records.handle),
    ApiKey.INIT_PRODUCER_ID: Row(handle=api_22_init_producer_id.handle),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Row(handle=api_23_offset_for_leader_epoch.handle),
    ApiKey.ADD_PARTITIONS_TO_TXN: Row(handle=api_24_add_partitions_to_txn.handle),
    ApiKey.ADD_OFFSETS_TO_TXN: Row(handle=api_25_add_offsets_to_txn.handle),
    ApiKey.END_TXN: Row(handle=api_26_end_txn.handle),
    ApiKey.WRITE_TXN_MARKERS: Row(handle=api_27_write_txn_markers.handle),
    ApiKey.TXN_OFFSET_COMMIT: Row(handle=api_28_txn_offset_commit.handle),
    ApiKey.DESCRIBE_ACLS: Row(handle=api_29_describe_acls.handle, refusal=api_29_describe_acls.refusal),
    ApiKey.CREATE_ACLS: Row(
        controller=api_30_create_acls.CONTROLLER,
        forward=api_30_create_acls.FORWARD,
        refusal=api_30_create_acls.refusal,
    ),
    ApiKey.DELETE_ACLS: Row(
        controller=api_31_delete_acls.CONTROLLER,
        forward=api_31_delete_acls.FORWARD,
        refusal=api_31_delete_acls.refusal,
    ),
    ApiKey.DESCRIBE_CONFIGS: Row(handle=api_32_describe_configs.handle),
    ApiKey.ALTER_CONFIGS: Row(controller=api_33_alter_configs.CONTROLLER, forward=api_33_alter_configs.FORWARD),
    ApiKey.SASL_AUTHENTICATE: Row(handle=api_36_sasl_authenticate.handle),
    ApiKey.CREATE_PARTITIONS: Row(
        controller=api_37_create_partitions.CONTROLLER, forward=api_37_create_partitions.FORWARD
    ),
    ApiKey.DELETE_GROUPS: Row(handle=api_42_delete_groups.handle),
    ApiKey.ELECT_LEADERS: Row(
        controller=api_43_elect_leaders.CONTROLLER,
        forward=api_43_elect_leaders.FORWARD,
        refusal=api_43_elect_leaders.refusal,
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Row(
        handle=api_44_incremental_alter_configs.handle, forward=api_44_incremental_alter_configs.FORWARD
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Row(
        controller=api_45_alter_partition_reassignments.CONTROLLER,
        forward=api_45_alter_partition_reassignments.FORWARD,
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Row(
        handle=api_46_list_partition_reassignments.handle, forward=api_46_list_partition_reassignments.FORWARD
    ),
    ApiKey.OFFSET_DELETE: Row(handle=api_47_offset_delete.handle),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Row(handle=api_50_describe_user_scram_credentials.handle),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Row(
        controller=api_51_alter_user_scram_credentials.CONTROLLER, forward=api_51_alter_user_scram_credentials.FORWARD
    ),
    ApiKey.VOTE: Row(handle=voters.handle),
    ApiKey.BEGIN_QUORUM_EPOCH: Row(handle=voters.handle),
    ApiKey.END_QUORUM_EPOCH: Row(handle=voters.handle),
    ApiKey.DESCRIBE_QUORUM: Row(handle=api_55_describe_quorum.handle, forward=api_55_describe_quorum.FORWARD),
    ApiKey.ALTER_PARTITION: Row(controller=api_56_alter_partition.CONTROLLER),
    ApiKey.UPDATE_FEATURES: Row(controller=api_57_update_features.CONTROLLER, forward=api_57_update_features.FORWARD),
    ApiKey.FETCH_SNAPSHOT: Row(handle=voters.handle),
    ApiKey.DESCRIBE_CLUSTER: Row(handle=api_60_describe_cluster.handle),
    ApiKey.DESCRIBE_PRODUCERS: Row(handle=api_61_describe_producers.handle),
    ApiKey.BROKER_REGISTRATION: Row(
        controller=api_62_broker_registration.CONTROLLER, refusal=api_62_broker_registration.refusal
    ),
    ApiKey.BROKER_HEARTBEAT: Row(controller=api_63_broker_heartbeat.CONTROLLER),
    ApiKey.UNREGISTER_BROKER: Row(
        controller=api_64_unregister_broker.CONTROLLER, forward=api_64_unregister_broker.FORWARD
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: Row(handle=api_65_describe_transactions.handle),
    ApiKey.LIST_TRANSACTIONS: Row(handle=api_66_list_transactions.handle),
    ApiKey.ALLOCATE_PRODUCER_IDS: Row(controller=api_67_allocate_producer_ids.CONTROLLER),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Row(handle=api_68_consumer_group_heartbeat.handle),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Row(handle=api_69_consumer_group_describe.handle),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Row(controller=api_73_assign_replicas_to_dirs.CONTROLLER),
    ApiKey.LIST_CONFIG_RESOURCES: Row(handle=api_74_list_config_resources.handle),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Row(handle=api_75_describe_topic_partitions.handle),
}
