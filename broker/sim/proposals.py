"""Checks that a leader counts an ISR that the controller may still accept: its members hold the high watermark back
(the maximal ISR).

Suppose that a leader forgets a proposal that is on its way. Its high watermark may then pass the log end of a member
that the controller adds a moment later. This is checked when a leader gets an answer. So the mistake is found even if
such a member is never elected.
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
from broker.sim.invariants.invariant import Fail
from broker.sim.invariants.replication import ProposedIsrCountsUntilItIsAnswered
from broker.wire.apis import ApiKey
from broker.wire.messages import Message

if TYPE_CHECKING:
    from broker.node.replicas.hosted import HostedPartition

LATE_SHARE = 0.4  # share of the answers that come late
LATE_S = 0.5  # longest delay


@contextlib.contextmanager
def answers_late(rng: random.Random) -> Iterator[None]:
    """Within this context, some answers of the controller to AlterPartition come late, as over a slow connection. By
    then the image may contain the change or a later one, and the leader may have made another proposal."""
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
    """Within this context, every proposal is followed until its leader gets the answer."""
    patch, counted = Patch(), ProposedIsrCountsUntilItIsAnswered(fail)
    propose, handle = IsrSender.propose, PartitionReplica.handle
    under_way: dict[PartitionReplica, dict[int, ProposeIsr]] = {}

    def watched_propose(self: IsrSender, hosted: HostedPartition, proposal: ProposeIsr) -> None:
        mine = under_way.setdefault(hosted.replica, {})
        for attempt in [attempt for attempt in mine if attempt != proposal.attempt]:
            if self._waiting.get(hosted.key, (None, None))[1] is mine[attempt]:
                del mine[attempt]  # it was never sent, because this one replaces it
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
    """Members of the proposal that the leader does not count although it must. The controller may still agree if the
    partition is still in the state in which the proposal was made. If the topic was deleted meanwhile, nobody leads,
    and no member counts."""
    if not leader.is_leader:
        return set()
    made_in = (proposal.leader_epoch, proposal.partition_epoch)
    if (leader.leader_epoch, leader.partition_epoch) != made_in:
        return set()
    return set(proposal.isr) - set(leader.maximal_isr)
