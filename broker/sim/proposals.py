"""An ISR that the controller may still accept counts: its members hold the high watermark back (the maximal ISR).

Suppose that a leader forgets a proposal that is on its way. It then moves its high watermark past a member that the
controller adds a moment later. This is checked as soon as a leader hears an answer, long before such a member would
have to be elected.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from broker.mutants import Patch
from broker.node.cluster.controller_client import ControllerClient
from broker.node.replicas.isr import IsrSender
from broker.replication import Action, Event, IsrProposalAnswered, PartitionReplica, ProposeIsr
from broker.sim.coverage import Coverage
from broker.sim.invariants import Fail, ProposedIsrCountsUntilItIsAnswered
from broker.wire.apis import ApiKey
from broker.wire.messages import Message

if TYPE_CHECKING:
    from broker.node.replicas.hosted import HostedPartition

LATE_SHARE = 0.4  # of the answers
LATE_S = 0.5  # at most


@contextlib.contextmanager
def answers_late(rng: random.Random) -> Iterator[None]:
    """Within this context, some answers of the controller to AlterPartition come late, as over a slow connection. By
    then the image may contain the same or more, and the leader may have made another proposal."""
    patch = Patch()
    call_once = ControllerClient.call_once

    async def call_late(self: ControllerClient, api_key: ApiKey, version: int, message: Message, **options: Any) -> Any:
        answer = await call_once(self, api_key, version, message, **options)
        if api_key is ApiKey.ALTER_PARTITION and rng.random() < LATE_SHARE:
            await asyncio.sleep(rng.uniform(0, LATE_S))
        return answer

    patch.set(ControllerClient, "call_once", call_late)
    try:
        yield
    finally:
        patch.undo()


@contextlib.contextmanager
def proposals_watched(fail: Fail, coverage: Coverage) -> Iterator[None]:
    """Within this context, every proposal is followed from the leader that makes it to the answer that it hears."""
    patch, counted = Patch(), ProposedIsrCountsUntilItIsAnswered(fail)
    propose, handle = IsrSender.propose, PartitionReplica.handle
    under_way: dict[PartitionReplica, dict[int, ProposeIsr]] = {}

    def watched_propose(self: IsrSender, hosted: HostedPartition, proposal: ProposeIsr) -> None:
        mine = under_way.setdefault(hosted.replica, {})
        for attempt in [attempt for attempt in mine if attempt != proposal.attempt]:
            if self._waiting.get(hosted.key, (None, None))[1] is mine[attempt]:
                del mine[attempt]  # it is never sent; this one takes its place
        mine[proposal.attempt] = proposal
        propose(self, hosted, proposal)

    def watched_handle(self: PartitionReplica, event: Event, now_ms: int) -> list[Action]:
        if not isinstance(event, IsrProposalAnswered):
            return handle(self, event, now_ms)
        mine = under_way.get(self, {})
        mine.pop(event.attempt, None)
        actions = handle(self, event, now_ms)
        if self.awaits_agreed_isr:
            coverage.reached("isr agreed to before the log told it")
        for proposal in mine.values():
            coverage.reached("answer of an older proposal")
            missing = missing_of(self, proposal)
            if missing:
                counted.violated(
                    f"the leader of epoch {self.leader_epoch} forgets {sorted(missing)}, which it has proposed for the "
                    f"ISR after partition epoch {proposal.partition_epoch}, upon the answer to an older proposal"
                )
        return actions

    patch.set(IsrSender, "propose", watched_propose)
    patch.set(PartitionReplica, "handle", watched_handle)
    try:
        yield
    finally:
        patch.undo()


def missing_of(leader: Any, proposal: ProposeIsr) -> set[int]:
    """Members of the proposal that do not count, although the controller may still agree, because the state is the one
    in which it was made. If the topic was deleted meanwhile, nobody leads, and nothing counts."""
    if not leader.is_leader:
        return set()
    made_in = (proposal.leader_epoch, proposal.partition_epoch)
    if (leader.leader_epoch, leader.partition_epoch) != made_in:
        return set()
    return set(proposal.isr) - set(leader.maximal_isr)
