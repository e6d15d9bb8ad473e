"""Eligible leader replicas (KIP-966): who may lead when nobody is left in the ISR. Pure.

Every member of the ISR holds all committed records. While the ISR has fewer members than `min.insync.replicas`, the
high watermark does not move (broker.replication). So a replica that leaves such an ISR still holds all that is
committed. It becomes an eligible leader replica (ELR). The ISR may then become empty, and the leader is, in this order:

1. The present leader, if it may lead and is in the ISR.
2. The first replica of the ISR that may lead, in replica order. If the ISR is empty, the first replica of the ELR that
   may lead. It then is the whole ISR.
3. If both are empty: the last known leader, if it may lead. This is what clusters without KIP-966 do. It may have lost
   records, so this election counts as unclean, although no setting has to allow it.
4. If unclean election is allowed: the first replica that may lead.
5. Nobody.

A replica leaves the ISR and the ELR when its broker registers after an unclean shutdown, because it may have lost
records that were not synced. A shutdown was clean if the broker then names the epoch that it was registered with (see
`broker.controller.brokers`). The ELR becomes empty when the ISR has `min.insync.replicas` members again.

The rules are those of Apache Kafka 4.3.1 (PartitionChangeBuilder, ConfigurationControlManager), with two differences.
If a reassignment removes a replica, we remove it from the ELR too. Apache Kafka keeps it there and never elects it. And
if the feature is switched off while an ISR is empty, the ELR stays until a leader is elected from it (elections.py).
Shown by tests/broker_controller/test_controller_eligible.py.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from broker.controller.image import BROKER_RESOURCE, NO_LEADER, TOPIC_RESOURCE, MetadataImage, PartitionState
from broker.controller.records import ClearElrRecord, ConfigRecord, MetadataRecord

FEATURE = "eligible.leader.replicas.version"
FEATURE_LEVEL = 1  # level in a new cluster, as in Apache Kafka since 4.1
MIN_INSYNC_REPLICAS = "min.insync.replicas"
BROKER_LEVEL_REFUSED = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
CLUSTER_LEVEL_REFUSED = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."


def is_on(image: MetadataImage) -> bool:
    return image.features.get(FEATURE, 0) > 0


def min_isr_of(image: MetadataImage, topic: str) -> int | None:
    """How many members an ISR of this topic needs for the high watermark to move. None: the feature is off.

    It is the topic's own setting, else that of the cluster. The cluster has one while the feature is on
    (`safety_records`).
    """
    if not is_on(image):
        return None
    cluster_wide = image.broker_configs.get("", {}).get(MIN_INSYNC_REPLICAS, "1")
    wanted = int(image.topic_configs.get(topic, {}).get(MIN_INSYNC_REPLICAS, cluster_wide))
    return min(wanted, len(image.topics[topic].partitions[0].replicas))


@dataclass(frozen=True, slots=True, kw_only=True)
class Elected:
    leader: int
    isr: tuple[int, ...]  # empty only if there is no leader
    elr: tuple[int, ...]  # ascending
    last_known_elr: tuple[int, ...]  # the last leader of a partition without a leader; otherwise empty


def elect_eligible(
    state: PartitionState,
    *,
    isr: tuple[int, ...],
    may_lead: Set[int],
    unclean: bool,
    min_isr: int,
    lost: int | None = None,
) -> Elected:
    """The election in a partition whose ISR is to become `isr`. `lost`: the broker that may have lost records."""
    elr = _eligible(state, isr, min_isr, lost)
    if state.leader in isr and state.leader in may_lead:
        return Elected(leader=state.leader, isr=isr, elr=elr, last_known_elr=())
    if isr and (leader := _first(state.replicas, may_lead & set(isr))) is not None:
        return Elected(leader=leader, isr=isr, elr=elr, last_known_elr=())
    if not isr and (leader := _first(state.replicas, may_lead & set(elr))) is not None:
        left = tuple(replica for replica in elr if replica != leader)
        return Elected(leader=leader, isr=(leader,), elr=left, last_known_elr=())
    leader = None if isr or elr else _last_known(state, may_lead)
    if leader is None and unclean:
        leader = _first(state.replicas, may_lead)
    if leader is not None:
        return Elected(leader=leader, isr=(leader,), elr=(), last_known_elr=())
    was_led = state.leader != NO_LEADER and not state.last_known_elr
    last_known = (state.leader,) if was_led else state.last_known_elr
    return Elected(leader=NO_LEADER, isr=isr, elr=elr, last_known_elr=last_known)


def _eligible(state: PartitionState, isr: tuple[int, ...], min_isr: int, lost: int | None) -> tuple[int, ...]:
    if len(isr) >= min_isr:
        return ()
    candidates = {*state.elr, *state.isr} & set(state.replicas)
    return tuple(sorted(candidates - set(isr) - {lost}))


def _first(replicas: tuple[int, ...], able: Set[int]) -> int | None:
    return next((replica for replica in replicas if replica in able), None)


def _last_known(state: PartitionState, may_lead: Set[int]) -> int | None:
    known = state.last_known_elr
    return known[0] if len(known) == 1 and known[0] in may_lead else None


# -- min.insync.replicas ----------------------------------------------------------------------------------------------


def safety_records(image: MetadataImage, *, static: int) -> tuple[ConfigRecord, ...]:
    """The records that make it safe to turn the feature on. They set `min.insync.replicas` for the cluster (to
    `static`, if it is not set) and remove it from single brokers. So the controller and each leader use one value."""
    records: list[ConfigRecord] = []
    if MIN_INSYNC_REPLICAS not in image.broker_configs.get("", {}):
        records.append(_broker_config("", str(static)))
    records += [
        _broker_config(broker, None)
        for broker, values in image.broker_configs.items()
        if broker and MIN_INSYNC_REPLICAS in values
    ]
    return tuple(records)


def _broker_config(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=broker, name=MIN_INSYNC_REPLICAS, value=value)


def change_problem(image: MetadataImage, resource_type: int, resource_name: str, name: str, value: str | None) -> str:
    """Why this setting may not change while the feature is on; "" if it may."""
    if resource_type != BROKER_RESOURCE or name != MIN_INSYNC_REPLICAS or not is_on(image):
        return ""
    if resource_name:
        return BROKER_LEVEL_REFUSED
    return CLUSTER_LEVEL_REFUSED if value is None else ""


def clearing_records(image: MetadataImage, records: list[MetadataRecord]) -> list[MetadataRecord]:
    """A new `min.insync.replicas` makes the present ELRs invalid, because they follow from the old value. If the value
    of the cluster is set, this happens even if it is equal to the old one, as in Apache Kafka. A partition whose ISR is
    empty then has no replica that may lead, until an unclean election."""
    if not is_on(image):
        return []
    clearing: list[MetadataRecord] = []
    for each in records:
        if not isinstance(each, ConfigRecord) or each.name != MIN_INSYNC_REPLICAS:
            continue
        if each.resource_type != TOPIC_RESOURCE:
            clearing.append(ClearElrRecord(topic=""))
        elif image.topic_configs.get(each.resource_name, {}).get(MIN_INSYNC_REPLICAS) != each.value:
            clearing.append(ClearElrRecord(topic=each.resource_name))
    return clearing
