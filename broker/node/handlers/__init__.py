"""One file per API, named by its key. A handler is `handle(broker, request)`: it answers the request, now or later.

It must be done with the memory of the request's records when it returns (they lie in the receive buffer).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

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
    api_18_api_versions,
    api_19_create_topics,
    api_20_delete_topics,
    api_22_init_producer_id,
    api_23_offset_for_leader_epoch,
    api_24_add_partitions_to_txn,
    api_25_add_offsets_to_txn,
    api_26_end_txn,
    api_27_write_txn_markers,
    api_32_describe_configs,
    api_42_delete_groups,
    api_47_offset_delete,
    api_52_vote,
    api_53_begin_quorum_epoch,
    api_54_end_quorum_epoch,
    api_55_describe_quorum,
    api_56_alter_partition,
    api_60_describe_cluster,
    api_61_describe_producers,
    api_62_broker_registration,
    api_63_broker_heartbeat,
    api_65_describe_transactions,
    api_66_list_transactions,
    api_67_allocate_producer_ids,
    api_68_consumer_group_heartbeat,
    api_69_consumer_group_describe,
)
from broker.wire.apis import ApiKey

if TYPE_CHECKING:
    from broker.node.broker import Broker

# A request of a connection or of this broker itself: Any, because only the former can be closed.
Handler: TypeAlias = Callable[["Broker", Any], None]

HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.PRODUCE: api_00_produce.handle,
    ApiKey.FETCH: api_01_fetch.handle,
    ApiKey.LIST_OFFSETS: api_02_list_offsets.handle,
    ApiKey.METADATA: api_03_metadata.handle,
    ApiKey.OFFSET_COMMIT: api_08_offset_commit.handle,
    ApiKey.OFFSET_FETCH: api_09_offset_fetch.handle,
    ApiKey.FIND_COORDINATOR: api_10_find_coordinator.handle,
    ApiKey.JOIN_GROUP: api_11_join_group.handle,
    ApiKey.HEARTBEAT: api_12_heartbeat.handle,
    ApiKey.LEAVE_GROUP: api_13_leave_group.handle,
    ApiKey.SYNC_GROUP: api_14_sync_group.handle,
    ApiKey.DESCRIBE_GROUPS: api_15_describe_groups.handle,
    ApiKey.LIST_GROUPS: api_16_list_groups.handle,
    ApiKey.API_VERSIONS: api_18_api_versions.handle,
    ApiKey.CREATE_TOPICS: api_19_create_topics.handle,
    ApiKey.DELETE_TOPICS: api_20_delete_topics.handle,
    ApiKey.INIT_PRODUCER_ID: api_22_init_producer_id.handle,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: api_23_offset_for_leader_epoch.handle,
    ApiKey.ADD_PARTITIONS_TO_TXN: api_24_add_partitions_to_txn.handle,
    ApiKey.ADD_OFFSETS_TO_TXN: api_25_add_offsets_to_txn.handle,
    ApiKey.END_TXN: api_26_end_txn.handle,
    ApiKey.WRITE_TXN_MARKERS: api_27_write_txn_markers.handle,
    ApiKey.DESCRIBE_CONFIGS: api_32_describe_configs.handle,
    ApiKey.DELETE_GROUPS: api_42_delete_groups.handle,
    ApiKey.OFFSET_DELETE: api_47_offset_delete.handle,
    ApiKey.VOTE: api_52_vote.handle,
    ApiKey.BEGIN_QUORUM_EPOCH: api_53_begin_quorum_epoch.handle,
    ApiKey.END_QUORUM_EPOCH: api_54_end_quorum_epoch.handle,
    ApiKey.DESCRIBE_QUORUM: api_55_describe_quorum.handle,
    ApiKey.ALTER_PARTITION: api_56_alter_partition.handle,
    ApiKey.DESCRIBE_CLUSTER: api_60_describe_cluster.handle,
    ApiKey.DESCRIBE_PRODUCERS: api_61_describe_producers.handle,
    ApiKey.BROKER_REGISTRATION: api_62_broker_registration.handle,
    ApiKey.BROKER_HEARTBEAT: api_63_broker_heartbeat.handle,
    ApiKey.DESCRIBE_TRANSACTIONS: api_65_describe_transactions.handle,
    ApiKey.LIST_TRANSACTIONS: api_66_list_transactions.handle,
    ApiKey.ALLOCATE_PRODUCER_IDS: api_67_allocate_producer_ids.handle,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: api_68_consumer_group_heartbeat.handle,
    ApiKey.CONSUMER_GROUP_DESCRIBE: api_69_consumer_group_describe.handle,
}
