"""Computes what changed between two images, from the viewpoint of one broker. Pure. The node acts on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from uuid import UUID

from broker.controller.image import BrokerRegistration, MetadataImage, PartitionState, TopicState


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChange:
    topic: str
    topic_id: UUID
    partition: int
    state: PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRemoval:
    topic: str
    topic_id: UUID
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataDelta:
    """`leads` and `follows` hold partitions whose state is new or changed in any field (compare leader_epoch yourself).

    A partition without a leader (-1) is in `follows`. Handle `removed` first, then the others.
    """

    leads: tuple[PartitionChange, ...]
    follows: tuple[PartitionChange, ...]
    removed: tuple[PartitionRemoval, ...]  # its topic was deleted, or this broker is no longer a replica
    changed: tuple[PartitionChange, ...]  # every changed partition of the cluster, for the journal
    brokers: tuple[BrokerRegistration, ...]  # new or changed registrations
    fenced: tuple[int, ...]
    unfenced: tuple[int, ...]
    topic_configs: tuple[str, ...]  # names of topics whose overrides changed


def diff(old: MetadataImage, new: MetadataImage, *, broker_id: int) -> MetadataDelta:
    changed = tuple(_changed_partitions(old, new))
    mine = [change for change in changed if broker_id in change.state.replicas]
    brokers = tuple(broker for key, broker in sorted(new.brokers.items()) if old.brokers.get(key) != broker)
    live_before, live_now = set(old.live_broker_ids()), set(new.live_broker_ids())
    config_names = old.topic_configs.keys() | new.topic_configs.keys()
    return MetadataDelta(
        leads=tuple(change for change in mine if change.state.leader == broker_id),
        follows=tuple(change for change in mine if change.state.leader != broker_id),
        removed=tuple(_removed_partitions(old, new, broker_id)),
        changed=changed,
        brokers=brokers,
        fenced=tuple(sorted(live_before - live_now)),
        unfenced=tuple(sorted(live_now - live_before)),
        topic_configs=tuple(
            sorted(name for name in config_names if old.topic_configs.get(name) != new.topic_configs.get(name))
        ),
    )


def towards(old: MetadataImage, new: MetadataImage, *, broker_id: int, partitions_max: int) -> MetadataImage:
    """Returns `new`, with at most this many partitions that are new for this broker. The rest is left out.

    Partitions that the broker has already are as in `new`. So only the start of a partition is delayed, never its
    removal. For the rest, call this again with the result as `old`.
    """
    left = partitions_max
    cut: dict[str, TopicState] = {}
    absent: set[str] = set()
    for name, topic in sorted(new.topics.items()):
        before = old.topics.get(name)
        if before is topic:
            continue
        known = len(before.partitions) if before is not None and before.topic_id == topic.topic_id else 0
        for partition in range(known, len(topic.partitions)):
            left -= broker_id in topic.partitions[partition].replicas
            if left < 0:
                cut[name] = replace(topic, partitions=topic.partitions[:partition])
                if not partition:
                    absent.add(name)
                break
    if not cut:
        return new
    topics = {name: cut.get(name, topic) for name, topic in new.topics.items() if name not in absent}
    return replace(new, topics=topics)


def _changed_partitions(old: MetadataImage, new: MetadataImage) -> Iterator[PartitionChange]:
    for name, topic in sorted(new.topics.items()):
        before = old.topics.get(name)
        if before is topic:
            continue  # replay shares the parts that it did not change
        known = before.partitions if before is not None and before.topic_id == topic.topic_id else ()
        for partition, state in enumerate(topic.partitions):
            if partition >= len(known) or known[partition] != state:
                yield PartitionChange(topic=name, topic_id=topic.topic_id, partition=partition, state=state)


def _removed_partitions(old: MetadataImage, new: MetadataImage, broker_id: int) -> Iterator[PartitionRemoval]:
    for name, topic in sorted(old.topics.items()):
        after = new.topics.get(name)
        if after is topic:
            continue
        kept = after.partitions if after is not None and after.topic_id == topic.topic_id else ()
        for partition, state in enumerate(topic.partitions):
            if broker_id not in state.replicas:
                continue
            if partition >= len(kept) or broker_id not in kept[partition].replicas:
                yield PartitionRemoval(topic=name, topic_id=topic.topic_id, partition=partition)
