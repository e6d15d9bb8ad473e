"""Who leads a partition, and who is in sync, after a change. Tables and pure functions of an image.

The rules are Kafka's (PartitionChangeBuilder). The leader is, in this order:

1. The present leader, if it may lead and is in the ISR.
2. The first replica of the ISR that may lead, in replica order.
3. If unclean election is allowed: the first replica that may lead. It is then the whole ISR.
4. Nobody.

The ISR never becomes empty. Its last member stays in it when it dies, because it alone certainly holds every committed
record. A new cluster has eligible leader replicas (KIP-966). Then the rules for leader and ISR are those of
`broker.controller.eligible`.

The leader epoch grows if and only if the leader changes or a replica is removed. So the leader no longer counts what a
removed replica still fetches. A replica whose storage failed does not lead (KIP-858: a leader must be active, and its
log directory online).

Every change may complete a reassignment, and this is checked each time (`broker.controller.reassignment`).
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace
from uuid import UUID

from broker.controller.eligible import Elected, elect_eligible, min_isr_of
from broker.controller.image import NO_LEADER, MetadataImage, PartitionState
from broker.controller.outcome import Outcome
from broker.controller.reassignment import Assignment, assignment_of, completed
from broker.controller.records import LEADER_STAYS, PartitionChangeRecord, replica_directory
from broker.controller.types import ElectionOutcome, ElectLeaders, ElectLeadersResponse
from broker.wire.errors import ErrorCode

REBALANCED_MAX = 1_000  # leaders moved by one check; the others wait for the next check, as in Kafka
UNCLEAN_ELECTION = "unclean.leader.election.enable"


def elect(
    state: PartitionState, *, isr: tuple[int, ...], may_lead: Set[int], unclean: bool
) -> tuple[int, tuple[int, ...]]:
    """(leader, isr) of a partition whose ISR is to become `isr`, which may be empty. This is the election without
    eligible leader replicas: the last member stays in the ISR. If the ISR is empty, it became so while there were such
    replicas, and they may still lead."""
    kept = isr or state.isr
    if state.leader in kept and state.leader in may_lead:
        return state.leader, kept
    for replica in state.replicas:
        if replica in kept and replica in may_lead:
            return replica, kept
    eligible: Set[int] = may_lead & set(state.elr) if not kept else frozenset()
    for replica in state.replicas:
        if replica in eligible:
            return replica, (replica,)
    if unclean:
        for replica in state.replicas:
            if replica in may_lead:
                return replica, (replica,)
    return NO_LEADER, kept


def change_partition(
    state: PartitionState,
    topic_id: UUID,
    partition: int,
    *,
    isr: tuple[int, ...],
    may_lead: Set[int],
    unclean: bool,
    min_isr: int | None = None,
    lost: int | None = None,
    assignment: Assignment | None = None,
) -> PartitionChangeRecord | None:
    """The record that gives the partition this ISR and a leader for it; None if nothing changes.

    `min_isr` None: the cluster has no eligible leader replicas. `lost`: the broker that shut down uncleanly.
    `assignment` None: the replicas stay as they are.
    """
    before = assignment_of(state)
    after = assignment or before
    over = completed(after, isr)
    if over is not None:
        after, isr = over
    moved = replace(state, replicas=after.replicas)
    if min_isr is None:
        leader, new_isr = elect(moved, isr=isr, may_lead=may_lead, unclean=unclean)
        # What KIP-966 has left stays until there is a leader again.
        left = tuple(replica for replica in state.elr if replica in after.replicas)
        elr, last_known = ((), ()) if new_isr else (left, state.last_known_elr)
        new = Elected(leader=leader, isr=new_isr, elr=elr, last_known_elr=last_known)
    else:
        new = elect_eligible(moved, isr=isr, may_lead=may_lead, unclean=unclean, min_isr=min_isr, lost=lost)
    present = Elected(leader=state.leader, isr=state.isr, elr=state.elr, last_known_elr=state.last_known_elr)
    if (new, after) == (present, before):
        return None
    is_removed, is_same = not set(before.replicas) <= set(after.replicas), after.replicas == before.replicas
    return PartitionChangeRecord(
        topic_id=topic_id,
        partition=partition,
        isr=new.isr,
        leader=new.leader if new.leader != state.leader or is_removed else LEADER_STAYS,
        replicas=None if is_same else after.replicas,
        directories=None if is_same or not state.directories else tuple(map(state.directory_of, after.replicas)),
        adding=None if after.adding == before.adding else after.adding,
        removing=None if after.removing == before.removing else after.removing,
        elr=None if new.elr == state.elr else new.elr,
        last_known_elr=None if new.last_known_elr == state.last_known_elr else new.last_known_elr,
    )


def is_unclean_allowed(image: MetadataImage, topic: str, default: bool) -> bool:
    """The topic's own setting, else the cluster-wide dynamic one, else the static one of this controller."""
    for values in (image.topic_configs.get(topic, {}), image.broker_configs.get("", {})):
        if UNCLEAN_ELECTION in values:
            return values[UNCLEAN_ELECTION].strip().lower() == "true"
    return default


def leaders_allowed(image: MetadataImage) -> set[int]:
    return {broker_id for broker_id, broker in image.brokers.items() if broker.may_lead}


def able(image: MetadataImage, may_lead: Set[int], topic_id: UUID, partition: int) -> Set[int]:
    """Those of the brokers whose replica of this partition is not offline."""
    return {broker_id for broker_id in may_lead if not image.has_offline(broker_id, topic_id, partition)}


def changes_for_failed(
    image: MetadataImage, broker_id: int, failed: Set[UUID], *, unclean_default: bool
) -> Iterator[PartitionChangeRecord]:
    """Log directories, or replicas by themselves, failed. Their broker leaves these ISRs and stops leading these
    partitions.

    `image` contains this already. Kafka: ReplicationControlManager.handleDirectoriesOffline.
    """
    for name, topic in image.topics.items():
        unclean = is_unclean_allowed(image, name, unclean_default)
        for partition, state in enumerate(topic.partitions):
            is_failed = (
                replica_directory(topic.topic_id, partition) in failed or state.directory_of(broker_id) in failed
            )
            if not is_failed or broker_id not in state.isr:
                continue
            isr = tuple(replica for replica in state.isr if replica != broker_id)
            may_lead = able(image, leaders_allowed(image), topic.topic_id, partition)
            change = change_partition(
                state,
                topic.topic_id,
                partition,
                isr=isr,
                may_lead=may_lead,
                unclean=unclean,
                min_isr=min_isr_of(image, name),
            )
            if change is not None:
                yield change


def changes_without(
    image: MetadataImage, broker_id: int, *, unclean_default: bool, has_lost: bool = False
) -> Iterator[PartitionChangeRecord]:
    """A broker is fenced or is stopping. It leaves its ISRs and leads nothing any more.

    `has_lost`: it may have lost records, so it leaves the eligible leader replicas too.
    """
    may_lead = leaders_allowed(image) - {broker_id}
    for name, topic in image.topics.items():
        unclean = is_unclean_allowed(image, name, unclean_default)
        for partition, state in enumerate(topic.partitions):
            is_in = broker_id in state.isr or broker_id == state.leader or (has_lost and broker_id in state.elr)
            if not is_in:
                continue
            change = change_partition(
                state,
                topic.topic_id,
                partition,
                isr=tuple(replica for replica in state.isr if replica != broker_id),
                may_lead=able(image, may_lead, topic.topic_id, partition),
                unclean=unclean,
                min_isr=min_isr_of(image, name),
                lost=broker_id if has_lost else None,
            )
            if change is not None:
                yield change


def changes_for_offline(
    image: MetadataImage, may_lead: Set[int], *, unclean_default: bool
) -> Iterator[PartitionChangeRecord]:
    """Partitions without a leader that can have one now, because a broker came or unclean election was allowed."""
    for name, topic in image.topics.items():
        unclean = is_unclean_allowed(image, name, unclean_default)
        for partition, state in enumerate(topic.partitions):
            if state.leader == NO_LEADER:
                change = change_partition(
                    state,
                    topic.topic_id,
                    partition,
                    isr=state.isr,
                    may_lead=able(image, may_lead, topic.topic_id, partition),
                    unclean=unclean,
                    min_isr=min_isr_of(image, name),
                )
                if change is not None:
                    yield change


def preferred_change(
    state: PartitionState, topic_id: UUID, partition: int, may_lead: Set[int]
) -> PartitionChangeRecord | None:
    """The change that makes the first replica the leader, if it may lead and is in the ISR. None if it leads already or
    cannot lead."""
    preferred = state.replicas[0]
    if state.leader == preferred or preferred not in state.isr or preferred not in may_lead:
        return None
    return PartitionChangeRecord(topic_id=topic_id, partition=partition, isr=state.isr, leader=preferred)


def elect_leaders(image: MetadataImage, request: ElectLeaders) -> Outcome:
    """ElectLeaders (KIP-460), preferred or unclean. If asked for all partitions, it reports only those that needed a
    change."""
    records: list[PartitionChangeRecord] = []
    results: list[ElectionOutcome] = []
    wanted = request.partitions
    if wanted is None:
        wanted = tuple((name, index) for name, topic in image.topics.items() for index in range(len(topic.partitions)))
    for topic, partition in wanted:
        error, message, record = _elect_one(image, topic, partition, unclean=request.unclean)
        if request.partitions is None and error == ErrorCode.election_not_needed:
            continue
        if record is not None:
            records.append(record)
        results.append(ElectionOutcome(topic=topic, partition=partition, error_code=error, error_message=message))
    response = ElectLeadersResponse(error_code=ErrorCode.none, partitions=tuple(results))
    return Outcome(response=response, records=tuple(records))


def _elect_one(
    image: MetadataImage, topic: str, partition: int, *, unclean: bool
) -> tuple[int, str | None, PartitionChangeRecord | None]:
    state = image.partition(topic, partition)
    if topic not in image.topics:
        return ErrorCode.unknown_topic_or_partition, f"No such topic as {topic}", None
    if state is None:
        return ErrorCode.unknown_topic_or_partition, f"No such partition as {topic}-{partition}", None
    topic_id = image.topics[topic].topic_id
    may_lead = able(image, leaders_allowed(image), topic_id, partition)
    if unclean:
        if state.leader != NO_LEADER:
            return ErrorCode.election_not_needed, "Leader election not needed for topic partition", None
        record = change_partition(
            state,
            topic_id,
            partition,
            isr=state.isr,
            may_lead=may_lead,
            unclean=True,
            min_isr=min_isr_of(image, topic),
        )
        if record is None or record.leader in (NO_LEADER, LEADER_STAYS):
            return ErrorCode.eligible_leaders_not_available, "An eligible leader was not available.", None
        return ErrorCode.none, None, record
    if state.leader == state.replicas[0]:
        return ErrorCode.election_not_needed, "Leader election not needed for topic partition", None
    record = preferred_change(state, topic_id, partition, may_lead)
    if record is None:
        return ErrorCode.preferred_leader_not_available, "The preferred leader was not available.", None
    return ErrorCode.none, None, record


def changes_to_preferred(image: MetadataImage) -> tuple[PartitionChangeRecord, ...]:
    """auto.leader.rebalance.enable: every partition whose first replica could lead and does not."""
    may_lead = leaders_allowed(image)
    found = (
        preferred_change(state, topic.topic_id, partition, able(image, may_lead, topic.topic_id, partition))
        for topic in image.topics.values()
        for partition, state in enumerate(topic.partitions)
        if state.leader != NO_LEADER
    )
    return tuple(record for record in found if record is not None)[:REBALANCED_MAX]


def leads_any(image: MetadataImage, broker_id: int) -> bool:
    return any(state.leader == broker_id for topic in image.topics.values() for state in topic.partitions)
