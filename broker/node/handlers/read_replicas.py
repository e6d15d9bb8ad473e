"""The replica from which a consumer should read (KIP-392). With `replica.selector.class` it is one in the consumer's
own rack.

The rules are those of Kafka's RackAwareReplicaSelector and ReplicaManager. The leader names a follower that is in sync,
is in the consumer's rack (`client.rack`), and has the offset. If the leader is in that rack, or no other replica is,
the leader answers with records. Among several followers it names the one with the largest log end offset, then the one
that was caught up last.
"""

from __future__ import annotations

from broker.controller.image import MetadataImage
from broker.node.replicas.hosted import HostedPartition
from broker.replication.roles import FollowerState

NOBODY = -1


def preferred_replica(
    hosted: HostedPartition, *, offset: int, rack: str, listener: str, image: MetadataImage, broker_id: int
) -> int:
    """A leader calls it. NOBODY means that the leader itself answers. `listener` is the consumer's listener, which the
    follower must have too."""
    own = image.brokers.get(broker_id)
    if not rack or (own is not None and own.rack == rack):
        return NOBODY
    best, best_key = NOBODY, (-1, -1, -1)
    for replica_id, follower in hosted.replica.followers.items():
        broker = image.brokers.get(replica_id)
        if broker is None or broker.fenced or broker.rack != rack or listener not in broker.endpoints:
            continue
        log_start = hosted.follower_log_starts.get(replica_id, 0)
        if replica_id not in hosted.replica.isr or not log_start <= offset <= follower.log_end_offset:
            continue
        key = (follower.log_end_offset, _caught_up_ms(follower), replica_id)
        if key > best_key:
            best, best_key = replica_id, key
    return best


def _caught_up_ms(follower: FollowerState) -> int:
    return (
        follower.last_caught_up_ms if follower.idle is None else max(follower.last_caught_up_ms, follower.idle.last_ms)
    )
