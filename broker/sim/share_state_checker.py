"""What the share coordinators keep, compared with what was confirmed to leaders (KIP-932).

A state that is read must be between two bounds. It holds at least what was confirmed in the same state epoch: the
deliveries, the final records and the start offset. And it holds nothing that no leader asked to write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from uuid import UUID

from broker.coordinator.keys import partition_for
from broker.node.features.share_groups.coordinator import TOPIC as STATE_TOPIC
from broker.node.features.share_groups.delivery.state_batches import NO_START_OFFSET
from broker.node.features.share_groups.states.records import StateKey
from broker.sim.cluster import SHARE_STATE_PARTITIONS
from broker.sim.invariants.groups import ShareStateIsReadBackAsConfirmed
from broker.sim.invariants.invariant import Fail
from broker.sim.partition_checker import PartitionChecker
from broker.sim.partition_truth import Key
from broker.sim.plan import TOPIC

if TYPE_CHECKING:
    from broker.node.features.share_groups.persister import StateToWrite
    from broker.node.features.share_groups.states.shard import StateResult

Epochs: TypeAlias = tuple[int, int]  # (state epoch, leader epoch)
ShareKey: TypeAlias = tuple[str, tuple[UUID, int]]  # group, (topic id, partition)


def is_lost(partitions: PartitionChecker, key: ShareKey, log: Key) -> bool:
    """Whether an unclean election took records of the partition, or of the log with its state."""
    state_key = StateKey(group_id=key[0], topic_id=key[1][0], partition=key[1][1])
    state_log = (STATE_TOPIC, partition_for(str(state_key), SHARE_STATE_PARTITIONS))
    return partitions.was_unclean(log) or partitions.was_unclean(state_log)


class Kept(NamedTuple):
    """What the state must hold of one record at least. Of two the larger one counts, as for the coordinator."""

    state_epoch: int
    delivery_count: int
    state: int
    leader_epoch: int
    number: int  # The confirmation's place in the order of all.


class KeptStart(NamedTuple):
    state_epoch: int
    start_offset: int
    leader_epoch: int
    number: int


@dataclass(slots=True, kw_only=True)
class _Known:
    records: dict[int, Kept] = field(default_factory=dict)  # The key is the offset.
    start: KeptStart | None = None
    # What leaders and the group asked to write: (state epoch, offset, state, delivery count), (state epoch, start).
    asked: set[tuple[int, int, int, int]] = field(default_factory=set)
    asked_starts: set[tuple[int, int]] = field(default_factory=set)


class ShareStateChecker:
    def __init__(self, *, fail: Fail, partitions: PartitionChecker) -> None:
        self._read_back, self._partitions = ShareStateIsReadBackAsConfirmed(fail), partitions
        self._known: dict[ShareKey, _Known] = {}
        self.number = 0  # The last confirmation's number.

    def _of(self, key: ShareKey) -> _Known:
        return self._known.setdefault(key, _Known())

    # -- what is asked and confirmed ---------------------------------------------------------------------------------

    def initializing(self, group: str, state_epoch: int, offsets: Mapping[UUID, Mapping[int, int]]) -> None:
        for topic_id, starts in offsets.items():
            for index, start_offset in starts.items():
                self._of((group, (topic_id, index))).asked_starts.add((state_epoch, start_offset))

    def writing(self, key: ShareKey, state: StateToWrite) -> None:
        known = self._of(key)
        known.asked_starts.add((state.state_epoch, state.start_offset))
        for batch in state.batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                known.asked.add((state.state_epoch, offset, batch.state, batch.delivery_count))

    def written(self, key: ShareKey, state: StateToWrite) -> None:
        """The coordinator has confirmed this write."""
        epochs = (state.state_epoch, state.leader_epoch)
        for batch in state.batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                self.confirmed(key, epochs, offset, batch.state, batch.delivery_count)
        known = self._of(key)
        self.number += 1
        start = KeptStart(state.state_epoch, state.start_offset, state.leader_epoch, self.number)
        if known.start is None or start[:2] > known.start[:2]:
            known.start = start

    def confirmed(self, key: ShareKey, epochs: Epochs, offset: int, state: int, delivery_count: int) -> None:
        """A leader or its coordinator said that this is written."""
        self.number += 1
        records, kept = self._of(key).records, Kept(epochs[0], delivery_count, state, epochs[1], self.number)
        before = records.get(offset)
        if before is None or kept[:3] > before[:3]:
            records[offset] = kept

    # -- what is read back -------------------------------------------------------------------------------------------

    def read(self, key: ShareKey, leader_epoch: int, result: StateResult, *, since: int) -> None:
        """A leader has read the state. `since`: the number of the last confirmation when it began to read."""
        if is_lost(self._partitions, key, (TOPIC, key[1][1])):
            return
        known = self._of(key)
        where = f"{key[0]}, {TOPIC}-{key[1][1]}, read in leader epoch {leader_epoch}"
        held = {
            offset: (batch.delivery_count, batch.state)
            for batch in result.batches
            for offset in range(batch.first_offset, batch.last_offset + 1)
        }
        missing = _missing(known, held, result, leader_epoch=leader_epoch, since=since)
        if missing:
            self._read_back.violated(f"{where}: {missing}")
        is_asked = result.start_offset == NO_START_OFFSET or (
            (result.state_epoch, result.start_offset) in known.asked_starts
        )
        if not is_asked:
            self._read_back.violated(f"{where}: nobody wrote the start offset {result.start_offset}")
        for offset, (count, state) in held.items():
            if (result.state_epoch, offset, state, count) not in known.asked:
                self._read_back.violated(f"{where}: nobody wrote state {state} of offset {offset} with count {count}")


def _missing(
    known: _Known, held: Mapping[int, tuple[int, int]], result: StateResult, *, leader_epoch: int, since: int
) -> str:
    """What was confirmed to this leader or an earlier one, and is not in the state. "" if it holds all."""
    start = known.start
    if start is not None and start.number <= since and start.leader_epoch <= leader_epoch:
        if start.state_epoch > result.state_epoch:
            return f"state epoch {result.state_epoch}, {start.state_epoch} was confirmed"
        if start.state_epoch == result.state_epoch and start.start_offset > result.start_offset:
            return f"start offset {result.start_offset}, {start.start_offset} was confirmed"
    for offset, kept in known.records.items():
        if kept.number > since or kept.leader_epoch > leader_epoch or kept.state_epoch != result.state_epoch:
            continue
        if offset >= result.start_offset and held.get(offset, (0, 0)) < (kept.delivery_count, kept.state):
            return f"offset {offset} has (count, state) {held.get(offset)}, confirmed was {kept}"
    return ""
