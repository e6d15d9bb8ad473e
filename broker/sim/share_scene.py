"""What all members of a share group in a run have in common, and the checks of the records that they get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from broker.sim.coordinator_client import Place
from broker.sim.coverage import Coverage
from broker.sim.invariants.clients import ConsumersReadCommittedRecordsOnly
from broker.sim.invariants.groups import MemberGetsTheRecordsThatItAcquires
from broker.sim.invariants.invariant import Fail
from broker.sim.partition_checker import PartitionChecker
from broker.sim.partition_truth import Key
from broker.sim.share_checker import ShareChecker
from broker.wire.records import iter_batches

if TYPE_CHECKING:
    from broker.wire.shapes.share_fetch import PartitionData


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareScene:
    group: str
    topic: str
    bootstrap: str
    topic_id: Callable[[], UUID | None]
    leader_of: Callable[[Key], int]
    coordinator_of: Callable[[int, str], Place]
    checker: ShareChecker
    partitions: PartitionChecker
    coverage: Coverage
    fail: Fail

    def delivered(self, node_id: int, member: str, answer: PartitionData) -> None:
        """A broker has sent a member records of a partition, and has acquired some for it."""
        key = (self.topic, answer.partition_index)
        where = f"{self.group}, {key[0]}-{key[1]}"
        headers = [batch.header for batch in iter_batches(answer.records)]
        if not self.partitions.was_unclean(key):
            committed = {batch.base_offset: batch for batch in self.partitions.committed(key)}
            for header in headers:
                known = committed.get(header.base_offset)
                ConsumersReadCommittedRecordsOnly(self.fail).check(where, node_id, header, known)
        batches = [(header.base_offset, header.last_offset) for header in headers]
        for acquired in answer.acquired_records:
            first, last = acquired.first_offset, acquired.last_offset
            MemberGetsTheRecordsThatItAcquires(self.fail).check(where, member, first, last, batches=batches)
            self.coverage.reached("records delivered to a share member", last - first + 1)

    def acknowledged(self, member: str, index: int, kinds: dict[int, int]) -> None:
        """A member was told that its acknowledgements of these offsets are done."""
        topic_id = self.topic_id()
        if topic_id is None:
            return
        for offset, kind in kinds.items():
            self.checker.confirmed((self.group, (topic_id, index)), member, offset, kind)
        if kinds:
            self.coverage.reached("records acknowledged by a share member", len(kinds))

    def refused(self) -> None:
        self.coverage.reached("acknowledgement of a share member refused")
