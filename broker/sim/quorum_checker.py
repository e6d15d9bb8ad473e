"""Invariants of the metadata quorum and the controller, checked after every event of a broker.

They are: election safety, one vote per epoch and voter, log matching, nothing committed is lost, the high watermark
never falls. The checker replays the committed entries, one by one, onto an image of its own. Other checkers use this
image to know leaders and ISRs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING

from broker.controller.elections import is_unclean_allowed
from broker.controller.image import NO_LEADER, BrokerRegistration, MetadataImage, PartitionState
from broker.controller.reassignment import is_completion
from broker.controller.record_codec import decode_records
from broker.controller.replay import replay
from broker.quorum.state_file import decode_quorum_state
from broker.quorum.types import LogEntry
from broker.sim.coverage import Coverage
from broker.sim.eligibility import is_unclean, registered_anew
from broker.sim.invariants.invariant import Fail
from broker.sim.invariants.quorum import (
    CommittedMetadataIsNeverChanged,
    CommittedMetadataIsNeverLost,
    EqualOffsetsMeanEqualImages,
    LeaderEpochsOnlyGrow,
    LeaderIsInItsIsr,
    MetadataLogMatching,
    NewLeaderHasANewEpoch,
    NoUncleanElectionUnlessAllowed,
    OneControllerPerEpoch,
    OneVotePerEpoch,
    QuorumHighWatermarkNeverFalls,
    ReassignmentEndsWithItsTargetInSync,
    ReplicaThatMayHaveLostRecordsIsNotEligible,
    SnapshotHoldsCommittedEntriesOnly,
)

if TYPE_CHECKING:
    from broker.sim.cluster import Life


def committed_before(epoch: int, committed_in: Sequence[int]) -> int:
    """How many entries a node must have when it begins to lead `epoch`: those that earlier epochs committed.

    A paused candidate may count its votes late, when others already have a newer epoch. It then leads an old epoch. It
    does not have what was committed later, and it cannot commit anything (seed 5007).
    """
    return max((number for number, each in enumerate(committed_in, 1) if each < epoch), default=0)


def _count_below(entries: Sequence[LogEntry], offset: int) -> int:
    """How many entries begin below this offset."""
    return bisect_left(entries, offset, key=lambda entry: entry.offset)


class QuorumChecker:
    def __init__(
        self,
        *,
        fail: Fail,
        coverage: Coverage,
        on_image: Callable[[MetadataImage, MetadataImage], None],
        on_vote: Callable[[int, int], None],  # called with (voter, candidate) for each new vote
        began_clean: Callable[[BrokerRegistration], bool],  # whether the previous life shut down cleanly
    ) -> None:
        self._coverage, self._on_image, self._on_vote = coverage, on_image, on_vote
        self._one_controller, self._one_vote = OneControllerPerEpoch(fail), OneVotePerEpoch(fail)
        self._log_matching, self._equal_images = MetadataLogMatching(fail), EqualOffsetsMeanEqualImages(fail)
        self._high_watermark = QuorumHighWatermarkNeverFalls(fail)
        self._snapshot = SnapshotHoldsCommittedEntriesOnly(fail)
        self._never_lost, self._never_changed = (
            CommittedMetadataIsNeverLost(fail),
            CommittedMetadataIsNeverChanged(fail),
        )
        self._epochs_grow, self._new_epoch = LeaderEpochsOnlyGrow(fail), NewLeaderHasANewEpoch(fail)
        self._leader_in_isr, self._no_unclean = LeaderIsInItsIsr(fail), NoUncleanElectionUnlessAllowed(fail)
        self._reassigned = ReassignmentEndsWithItsTargetInSync(fail)
        self._not_eligible = ReplicaThatMayHaveLostRecordsIsNotEligible(fail)
        # By partition: brokers that registered after an unclean shutdown, until a leader brings them into the ISR.
        self._doubtful: dict[tuple[str, int], set[int]] = {}
        self._began_clean = began_clean
        self.image = MetadataImage()
        self._committed: list[LogEntry] = []
        self._committed_in: list[int] = []  # the epoch of the first node that was seen to count the entry as committed
        self._images: dict[int, MetadataImage] = {}  # the image after each committed entry, by the image's offset
        self._images_seen: dict[int, MetadataImage] = {}  # The key is the node.
        self._mirrors: dict[int, list[LogEntry]] = {}
        self._seen: dict[int, tuple[int, str, int, int, int, int]] = {}  # The key is the node, see `check`.
        self._was_active: int | None = None

    def life_began(self, node_id: int) -> None:
        self._seen.pop(node_id, None)

    def quorum_state_written(self, node_id: int, text: str) -> None:
        state = decode_quorum_state(text)
        self._note_vote(node_id, state.leader_epoch, state.voted_id)

    def _note_vote(self, node_id: int, epoch: int, voted_id: int) -> None:
        """Note a vote. It counts on the disk and also if it is only in memory, because the candidate may know it."""
        if voted_id >= 0 and self._one_vote.voted(node_id, epoch, voted_id):
            self._on_vote(node_id, voted_id)

    def _check_image(self, life: Life) -> None:
        """Check that brokers with the entries up to the same offset have the same image. They may have got the entries
        one by one or by a snapshot."""
        assert life.broker is not None
        image = life.broker.metadata.image
        if self._images_seen.get(life.node_id) is image or image.offset < 0:
            return
        self._images_seen[life.node_id] = image
        self._equal_images.check(life.node_id, image, expected=self._images.get(image.offset))

    def check(self, life: Life) -> None:
        assert life.broker is not None
        quorum = life.broker.metadata.quorum
        end = quorum.log_end_offset
        mirror = self._mirrors.setdefault(life.node_id, [])
        start = quorum.log_start_offset
        seen = (quorum.epoch, quorum.role_name, end, quorum.high_watermark, start, quorum.voted_id)
        before = self._seen.get(life.node_id)
        if before is None or before[5] != quorum.voted_id or before[0] != quorum.epoch:
            self._note_vote(life.node_id, quorum.epoch, quorum.voted_id)
        if before == seen and (end == start or quorum.last_entry is mirror[-1]):
            return
        self._update_mirror(life, mirror)
        quorum.check_invariants()
        if before is not None:
            self._high_watermark.check(life.node_id, before=before[3], now=quorum.high_watermark)
        self._seen[life.node_id] = seen
        self._note_leader(life, mirror)
        self._commit(life, quorum.high_watermark, mirror)
        self._check_image(life)

    def _update_mirror(self, life: Life, mirror: list[LogEntry]) -> None:
        assert life.broker is not None
        quorum = life.broker.metadata.quorum
        start = quorum.log_start_offset
        committed = self._committed[-1].end_offset if self._committed else 0
        self._snapshot.check(life.node_id, dropped=start, committed=committed)
        # A snapshot stands for committed entries. `_check_image` checks its image.
        entries = (*self._committed[: _count_below(self._committed, start)], *quorum.read_log())
        common = min(len(entries), len(mirror))
        while common and entries[common - 1] != mirror[common - 1]:
            common -= 1
        if common < len(mirror):
            self._coverage.reached("metadata truncated")
            del mirror[common:]
        for entry in entries[common:]:
            self._log_matching.check(life.node_id, entry, previous_epoch=mirror[-1].epoch if mirror else -1)
            mirror.append(entry)

    def _note_leader(self, life: Life, mirror: list[LogEntry]) -> None:
        assert life.broker is not None
        quorum = life.broker.metadata.quorum
        if not quorum.is_leader:
            return
        if self._one_controller.leads(life.node_id, quorum.epoch):
            count = committed_before(quorum.epoch, self._committed_in)
            self._never_lost.check(life.node_id, quorum.epoch, log=mirror, committed=self._committed[:count])
        if life.broker.metadata.controller.is_active and self._was_active != quorum.epoch:
            if self._was_active is not None:
                self._coverage.reached("controller failover")
            self._was_active = quorum.epoch

    def _commit(self, life: Life, high_watermark: int, mirror: list[LogEntry]) -> None:
        known = _count_below(mirror, high_watermark)
        self._never_changed.check(life.node_id, known=known, log=mirror, committed=self._committed)
        assert life.broker is not None
        epoch = life.broker.metadata.quorum.epoch
        for entry in mirror[len(self._committed) : known]:
            self._committed.append(entry)
            self._committed_in.append(epoch)
            records = () if entry.is_control else decode_records(entry.values)
            old = self.image
            self.image = replay(old, records, offset=entry.end_offset - 1, epoch=entry.epoch)
            self._images[self.image.offset] = self.image
            self._check_eligibility(old)
            self._check_partitions(old)
            self._on_image(old, self.image)

    def _check_eligibility(self, old: MetadataImage) -> None:
        """Check the rules of KIP-966. The feature is on from the first entry of a cluster on."""
        registered = registered_anew(old, self.image)
        if old.topics is self.image.topics and not registered:
            return
        lost = {each for each in registered if not self._began_clean(self.image.brokers[each])}
        for name, topic in self.image.topics.items():
            before = old.topics.get(name)
            if before is topic and not registered:
                continue
            for index, now in enumerate(topic.partitions):
                known = before is not None and before.topic_id == topic.topic_id and index < len(before.partitions)
                was = before.partitions[index] if known and before is not None else now
                if not known:
                    self._doubtful[(name, index)] = set()
                self._look_at_eligibility((name, index), was, now, registered, lost)

    def _look_at_eligibility(
        self, key: tuple[str, int], was: PartitionState, now: PartitionState, registered: Set[int], lost: Set[int]
    ) -> None:
        doubtful = self._doubtful.setdefault(key, set())
        doubtful |= lost & set(now.replicas)
        if now.leader == was.leader or is_completion(was, now):
            doubtful -= set(now.isr) - set(was.isr)  # the leader has seen that they hold everything
        elif now.isr == (now.leader,):
            if was.last_known_elr == now.isr and not {*was.isr, *was.elr} - registered:
                self._coverage.reached("last known leader elected")
                doubtful.discard(now.leader)
            elif is_unclean(was, now, registered=registered):
                doubtful.discard(now.leader)  # another invariant judges this election
            elif now.leader in was.elr:
                self._coverage.reached("eligible replica elected")
        self._not_eligible.check(f"{key[0]}-{key[1]}", now, doubtful=doubtful)
        if lost & {*was.isr, *was.elr}:
            self._coverage.reached("no longer eligible")
        if (registered - lost) & set(was.elr) & {*now.isr, *now.elr}:
            self._coverage.reached("eligible again after a clean stop")

    def _check_partitions(self, old: MetadataImage) -> None:
        """Check that the controller has not written a forbidden change."""
        if old.topics is self.image.topics:
            return
        registered = registered_anew(old, self.image)
        for name, topic in self.image.topics.items():
            before = old.topics.get(name)
            if before is None or before.topic_id != topic.topic_id:
                continue
            for index, (was, now) in enumerate(zip(before.partitions, topic.partitions, strict=False)):
                if was is now:
                    continue
                where = f"{name}-{index}"
                self._epochs_grow.check(where, was, now)
                self._new_epoch.check(where, was, now)
                self._leader_in_isr.check(where, now)
                self._reassigned.check(where, was, now)
                self._note_reassignment(was, now)
                if now.leader in (NO_LEADER, was.leader):
                    continue
                if is_unclean(was, now, registered=registered) and not is_completion(was, now):
                    self._coverage.reached("unclean election")
                    allows = is_unclean_allowed(old, name, False) or is_unclean_allowed(self.image, name, False)
                    self._no_unclean.check(where, was, now, is_allowed=allows)

    def _note_reassignment(self, was: PartitionState, now: PartitionState) -> None:
        if not was.is_reassigning or now.is_reassigning:
            return
        if not is_completion(was, now):
            self._coverage.reached("reassignment cancelled")
            return
        self._coverage.reached("reassignment completed")
        if was.leader in was.removing and now.leader != was.leader:
            self._coverage.reached("leader moved by a reassignment")
