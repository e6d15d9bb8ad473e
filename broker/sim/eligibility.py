"""Who may lead by KIP-966, judged only by two states of a partition. The checkers do not use the controller's own code,
because a mutant may have changed it.
"""

from __future__ import annotations

from collections.abc import Set

from broker.controller.image import NO_LEADER, MetadataImage, PartitionState


def registered_anew(old: MetadataImage, new: MetadataImage) -> Set[int]:
    """Brokers that registered between these two images. Each may have lost data that it had not synced."""
    return {
        broker_id
        for broker_id, broker in new.brokers.items()
        if broker_id not in old.brokers or old.brokers[broker_id].broker_epoch != broker.broker_epoch
    }


def is_unclean(was: PartitionState, now: PartitionState, *, registered: Set[int] = frozenset()) -> bool:
    """Whether the new leader may lack committed records. It may if it was neither in the ISR, nor eligible, nor the
    last known leader of a partition without any other candidate. `registered`: brokers that registered in the same
    step.

    This does not consider the end of a reassignment.
    """
    if now.leader in (NO_LEADER, was.leader):
        return False
    in_sync = {*was.isr, *was.elr}
    if now.leader in in_sync:
        return False
    return bool(in_sync - registered) or was.last_known_elr != (now.leader,)
