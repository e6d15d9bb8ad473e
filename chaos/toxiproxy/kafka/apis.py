"""Kafka's APIs that clients use: names, keys, and by what a toxic may select their requests. Values only.

Left out: APIs that only brokers and controllers send to each other. tests/chaos/test_chaos_kafka_apis.py compares
this table with the protocol's schemas.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Selector(StrEnum):
    """What a request may name, beside its API and its client."""

    TOPIC = "topic"
    PARTITION = "partition"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional_id"


_TOPIC: Final = (Selector.TOPIC,)
_PARTITIONS: Final = (Selector.TOPIC, Selector.PARTITION)
_GROUP: Final = (Selector.GROUP,)
_OF_GROUP: Final = (*_PARTITIONS, Selector.GROUP)
_TRANSACTION: Final = (Selector.TRANSACTIONAL_ID,)
# Name -> key, and what its requests name.
_APIS: Final[dict[str, tuple[int, tuple[Selector, ...]]]] = {
    "Produce": (0, (*_PARTITIONS, Selector.TRANSACTIONAL_ID)),
    "Fetch": (1, _PARTITIONS),
    "ListOffsets": (2, _PARTITIONS),
    "Metadata": (3, _PARTITIONS),  # a request names topics; what is done to its response may be meant for a partition
    "OffsetCommit": (8, _OF_GROUP),
    "OffsetFetch": (9, _OF_GROUP),
    "FindCoordinator": (10, (Selector.GROUP, Selector.TRANSACTIONAL_ID)),
    "JoinGroup": (11, _GROUP),
    "Heartbeat": (12, _GROUP),
    "LeaveGroup": (13, _GROUP),
    "SyncGroup": (14, _GROUP),
    "DescribeGroups": (15, _GROUP),
    "ListGroups": (16, ()),
    "SaslHandshake": (17, ()),
    "ApiVersions": (18, ()),
    "CreateTopics": (19, _TOPIC),
    "DeleteTopics": (20, _TOPIC),
    "DeleteRecords": (21, _PARTITIONS),
    "InitProducerId": (22, _TRANSACTION),
    "OffsetForLeaderEpoch": (23, _PARTITIONS),
    "AddPartitionsToTxn": (24, (*_PARTITIONS, Selector.TRANSACTIONAL_ID)),
    "AddOffsetsToTxn": (25, (Selector.GROUP, Selector.TRANSACTIONAL_ID)),
    "EndTxn": (26, _TRANSACTION),
    "TxnOffsetCommit": (28, (*_OF_GROUP, Selector.TRANSACTIONAL_ID)),
    "DescribeAcls": (29, ()),
    "CreateAcls": (30, ()),
    "DeleteAcls": (31, ()),
    "DescribeConfigs": (32, _TOPIC),
    "AlterConfigs": (33, _TOPIC),
    "AlterReplicaLogDirs": (34, _PARTITIONS),
    "DescribeLogDirs": (35, _PARTITIONS),
    "SaslAuthenticate": (36, ()),
    "CreatePartitions": (37, _TOPIC),
    "CreateDelegationToken": (38, ()),
    "RenewDelegationToken": (39, ()),
    "ExpireDelegationToken": (40, ()),
    "DescribeDelegationToken": (41, ()),
    "DeleteGroups": (42, _GROUP),
    "ElectLeaders": (43, _PARTITIONS),
    "IncrementalAlterConfigs": (44, _TOPIC),
    "AlterPartitionReassignments": (45, _PARTITIONS),
    "ListPartitionReassignments": (46, _PARTITIONS),
    "OffsetDelete": (47, _OF_GROUP),
    "DescribeClientQuotas": (48, ()),
    "AlterClientQuotas": (49, ()),
    "DescribeUserScramCredentials": (50, ()),
    "AlterUserScramCredentials": (51, ()),
    "DescribeQuorum": (55, _PARTITIONS),
    "UpdateFeatures": (57, ()),
    "DescribeCluster": (60, ()),
    "DescribeProducers": (61, _PARTITIONS),
    "UnregisterBroker": (64, ()),
    "DescribeTransactions": (65, _TRANSACTION),
    "ListTransactions": (66, ()),
    "ConsumerGroupHeartbeat": (68, _GROUP),
    "ConsumerGroupDescribe": (69, _GROUP),
    "GetTelemetrySubscriptions": (71, ()),
    "PushTelemetry": (72, ()),
    "ListConfigResources": (74, ()),
    "DescribeTopicPartitions": (75, _TOPIC),
    "ShareGroupHeartbeat": (76, _GROUP),
    "ShareGroupDescribe": (77, _GROUP),
    "ShareFetch": (78, _OF_GROUP),
    "ShareAcknowledge": (79, _OF_GROUP),
    "AddRaftVoter": (80, ()),
    "RemoveRaftVoter": (81, ()),
    "StreamsGroupHeartbeat": (88, _GROUP),
    "StreamsGroupDescribe": (89, _GROUP),
    "DescribeShareGroupOffsets": (90, _OF_GROUP),
    "AlterShareGroupOffsets": (91, _OF_GROUP),
    "DeleteShareGroupOffsets": (92, (Selector.TOPIC, Selector.GROUP)),
}

API_KEYS: Final[dict[str, int]] = {name: key for name, (key, _) in _APIS.items()}
API_NAMES: Final[dict[int, str]] = {key: name for name, key in API_KEYS.items()}
SELECTORS: Final[dict[str, tuple[Selector, ...]]] = {name: selectors for name, (_, selectors) in _APIS.items()}
