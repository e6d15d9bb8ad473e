"""How much one request may ask for: the number of elements in all its arrays together. It is known before anything is
built from the request.

A request uses the event loop in proportion to its elements. So each API may have as many elements as are handled in
about 50 ms (docs/internals/simulation.md has the measurements). If a request has more, its connection is closed, and a
log line says why. Requests between brokers about many partitions may be larger, and are handled in at most 200 ms. A
follower names all partitions of its leader at once. In its other requests a broker sends no more than is allowed here.
Shown by tests/broker_node/test_node_limits.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.wire.apis import ApiKey

ELEMENTS_MAX = 5_000  # A client's request whose API is not in the table has this limit.
# For brokers.
ELEMENTS_MAX_OF_PEERS: Mapping[int, int] = {
    ApiKey.FETCH: 100_000,
    ApiKey.ALTER_PARTITION: 50_000,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: 20_000,
    ApiKey.WRITE_TXN_MARKERS: 50_000,
    # one partition with as many states as group.share.max.partition.max.record.locks
    ApiKey.WRITE_SHARE_GROUP_STATE: 20_000,
}
# An element of these APIs costs much more than one lookup: it needs about 80 settings, a log, or a group's shard.
ELEMENTS_MAX_OF: Mapping[int, int] = {
    ApiKey.PRODUCE: 2_000,
    ApiKey.FETCH: 10_000,  # these two cost less, and clients use them for all partitions at once
    ApiKey.METADATA: 10_000,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 3_000,
    ApiKey.CREATE_TOPICS: 1_000,
    ApiKey.DELETE_TOPICS: 1_000,
    ApiKey.CREATE_PARTITIONS: 1_000,
    ApiKey.DESCRIBE_CONFIGS: 500,
    ApiKey.ALTER_CONFIGS: 1_000,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1_000,
    ApiKey.CREATE_ACLS: 1_000,
    ApiKey.DELETE_ACLS: 100,  # a filter without a name checks every binding: 6 ms for 10,000 bindings
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 1_000,
    ApiKey.DELETE_GROUPS: 1_000,
    ApiKey.DESCRIBE_GROUPS: 1_000,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 1_000,
    ApiKey.SHARE_GROUP_DESCRIBE: 1_000,
    ApiKey.SHARE_FETCH: 20_000,  # most elements are the types of acknowledged records, with one byte each
    ApiKey.SHARE_ACKNOWLEDGE: 20_000,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: 1_000,
    ApiKey.DELETE_SHARE_GROUP_STATE: 1_000,
    ApiKey.READ_SHARE_GROUP_STATE: 1_000,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: 1_000,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: 1_000,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: 1_000,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: 1_000,
    ApiKey.DELETE_RECORDS: 1_000,
    ApiKey.LIST_OFFSETS: 2_000,
}


def elements_max(api_key: int, *, is_peer: bool) -> int:
    """`is_peer`: another broker asks."""
    if is_peer and api_key in ELEMENTS_MAX_OF_PEERS:
        return ELEMENTS_MAX_OF_PEERS[api_key]
    return ELEMENTS_MAX_OF.get(api_key, ELEMENTS_MAX)
