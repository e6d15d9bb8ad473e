"""Invariants of the partitions, checked after every event of a broker.

They are: log matching, one leader per epoch, nothing committed is lost, the high watermark never falls within an epoch,
members of the ISR hold all that is committed, idempotence. The checker judges by what is in the logs, read back from
the simulated disks, and by the ISRs and leaders that the controllers committed.

A record is committed if it was below the high watermark of a leader at any time. An unclean election may lose committed
records. After it, the records in the new leader's log are the committed ones.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, TypeAlias

from broker.controller.image import MetadataImage, PartitionState
from broker.controller.reassignment import is_completion
from broker.sim.coverage import Coverage
from broker.sim.eligibility import is_unclean, registered_anew
from broker.sim.invariants.invariant import Fail
from broker.sim.invariants.replication import (
    CommittedMeansOnMinInsyncReplicasBrokers,
    CommittedRecordIsNeverLost,
    CommittedRecordNeverChanges,
    EligibleReplicasHoldAllThatIsCommitted,
    EveryBatchInALogIsWhole,
    HighWatermarkNeverFallsWithinAnEpoch,
    LogMatching,
    MembersOfTheIsrHoldAllThatIsCommitted,
    OneLeaderPerEpoch,
    WhatAReplicaHasStoredIsThereInItsNextLife,
)
from broker.sim.invariants.transactions import LastStableOffsetNeverFallsWithinAnEpoch
from broker.sim.partition_truth import BatchSeen, Key, Truth, Watched, drop_uncommitted, holds, name_of, seen
from broker.sim.sequence_checker import SequenceChecker, note_sequence
from broker.sim.transaction_checker import TransactionChecker
from broker.wire.records import iter_batches

if TYPE_CHECKING:
    from broker.node.replicas.hosted import HostedPartition
    from broker.sim.cluster import Life


# These values show that a replica changed: log end offset, high watermark, leader epoch, whether it leads.
_Mark: TypeAlias = tuple[int, int, int, bool]


class PartitionChecker:
    def __init__(
        self,
        *,
        fail: Fail,
        coverage: Coverage,
        transactions: TransactionChecker,
        can_lose_power_unsynced: bool,
        has_strangers: bool = False,
    ) -> None:
        self._coverage, self._transactions = coverage, transactions
        self._one_leader, self._log_matching = OneLeaderPerEpoch(fail), LogMatching(fail)
        self._batch_is_whole = EveryBatchInALogIsWhole(fail)
        self._stored_is_there = WhatAReplicaHasStoredIsThereInItsNextLife(fail)
        self._high_watermark = HighWatermarkNeverFallsWithinAnEpoch(fail)
        self._stable_offset = LastStableOffsetNeverFallsWithinAnEpoch(fail)
        self._never_lost, self._never_changes = CommittedRecordIsNeverLost(fail), CommittedRecordNeverChanges(fail)
        self._on_enough_brokers = CommittedMeansOnMinInsyncReplicasBrokers(fail)
        self._isr_holds_all = MembersOfTheIsrHoldAllThatIsCommitted(fail)
        self._elr_holds_all = EligibleReplicasHoldAllThatIsCommitted(fail)
        self._sequences = SequenceChecker(fail, has_strangers=has_strangers)
        self._counts_holders = not can_lose_power_unsynced
        self._truths: dict[Key, Truth] = {}
        self._mirrors: dict[tuple[int, Key], list[BatchSeen]] = {}
        self._watched: dict[tuple[int, Key], Watched] = {}
        self._marks: dict[int, dict[HostedPartition, _Mark]] = {}  # The key is the node.
        self._to_read_again: set[tuple[int, Key]] = set()  # before a new life, anything on the disk may have changed
        # What an earlier life had in its log and had synced: (number of batches, the last of them).
        self._stored: dict[tuple[int, Key], tuple[int, BatchSeen]] = {}
        # Replicas that a reassignment removed at some time. Their logs may have been deleted, and may begin again.
        self._removed: set[tuple[int, Key]] = set()
        # Logs with a cleaner. It removes only committed records. A story of the aftermath judges which ones may go.
        self.compacted: set[Key] = set()
        self._vouched: dict[tuple[int, Key], int] = {}  # number of batches before the event in which the storage failed
        self._lives: dict[int, Life] = {}
        self._image = MetadataImage()

    # -- reading -----------------------------------------------------------------------------------------------------

    def leader_epoch(self, key: Key) -> int:
        """The leader epoch that the controllers committed last, -1 before the first."""
        state = self._image.partition(*key)
        return -1 if state is None else state.leader_epoch

    def follows(self, node_id: int, key: Key, leader_epoch: int) -> bool:
        """Whether the node knows this leader epoch and does not lead it."""
        watched = self._watched.get((node_id, key))
        return watched is not None and watched.leader_epoch == leader_epoch and not watched.is_leader

    def has_uncommitted(self, node_id: int, key: Key) -> bool:
        """Whether this broker's log has records that are not committed yet."""
        mirror = self.mirror(node_id, key)
        return bool(mirror) and mirror[-1].last_offset >= self.committed_end(key)

    def was_unclean(self, key: Key) -> bool:
        return self._truth(key).unclean_epoch >= 0

    def committed(self, key: Key) -> list[BatchSeen]:
        return self._truth(key).committed

    def committed_end(self, key: Key) -> int:
        return self._truth(key).end_offset

    def mirror(self, node_id: int, key: Key) -> list[BatchSeen]:
        return self._mirrors.setdefault((node_id, key), [])

    def _truth(self, key: Key) -> Truth:
        return self._truths.setdefault(key, Truth())

    # -- events ------------------------------------------------------------------------------------------------------

    def life_began(self, life: Life) -> None:
        previous = self._lives.get(life.node_id)
        is_known = previous is not None and not previous.died_within_event
        self._lives[life.node_id] = life
        self._marks.pop(life.node_id, None)
        for node_id, key in list(self._watched):
            if node_id == life.node_id:
                del self._watched[(node_id, key)]
        for (node_id, key), mirror in self._mirrors.items():
            if node_id == life.node_id:
                self._note_stored((node_id, key), mirror, is_known=is_known)
                self._to_read_again.add((node_id, key))

    def _note_stored(self, node_and_key: tuple[int, Key], mirror: list[BatchSeen], *, is_known: bool) -> None:
        """Note what a life has stored when it ends. If it did not open the log, the note of the life before it
        stays."""
        if not is_known:
            self._stored.pop(node_and_key, None)
        elif node_and_key not in (*self._to_read_again, *self._removed) and self._counts_holders:
            count = min(len(mirror), self._vouched.pop(node_and_key, len(mirror)))
            if count:
                self._stored[node_and_key] = count, mirror[count - 1]

    def has_watched(self, node_id: int, key: Key) -> bool:
        """Whether the present life of the broker has hosted this partition."""
        return (node_id, key) in self._watched

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        self._image = new
        for name, topic in old.topics.items():
            if name not in new.topics or new.topics[name].topic_id != topic.topic_id:
                self.forget(name)
        for name, topic in new.topics.items():
            before = old.topics.get(name)
            if before is None or before.partitions is topic.partitions or before.topic_id != topic.topic_id:
                continue
            for index, (was, now) in enumerate(zip(before.partitions, topic.partitions, strict=False)):
                if was is not now:
                    self._state_changed((name, index), was, now, registered_anew(old, new))

    def forget(self, name: str) -> None:
        """The topic was deleted, and a new topic with the same name begins with an empty log. Or its logs were changed
        by something that these rules know nothing of."""
        for key in [key for key in self._truths if key[0] == name]:
            del self._truths[key]
        for node_and_key in [each for each in self._mirrors if each[1][0] == name]:
            del self._mirrors[node_and_key]
        for node_and_key in [each for each in self._watched if each[1][0] == name]:
            del self._watched[node_and_key]
        self._to_read_again = {each for each in self._to_read_again if each[1][0] != name}
        self._stored = {each: stored for each, stored in self._stored.items() if each[1][0] != name}

    def _state_changed(self, key: Key, was: PartitionState, now: PartitionState, registered: Set[int]) -> None:
        for node_id in set(was.replicas) - set(now.replicas):
            self._removed.add((node_id, key))
            self._stored.pop((node_id, key), None)
        if now.leader not in (-1, was.leader):
            self._coverage.reached("leader elected")
            topic = self._image.topics[key[0]]
            if (
                self._image.has_offline(was.leader, topic.topic_id, key[1])
                and was.leader in self._image.live_broker_ids()
            ):
                self._coverage.reached("leadership handed on")
            if is_unclean(was, now, registered=registered) and not is_completion(was, now):
                truth = self._truth(key)
                truth.unclean_epoch, truth.is_given_up = now.leader_epoch, True
        if len(now.isr) == 1 and len(was.isr) > 1:
            self._coverage.reached("isr of one")
        if set(was.isr) - set(now.isr):
            self._coverage.reached("isr shrunk")
        if set(now.isr) - set(was.isr):
            self._coverage.reached("isr expanded")
            self._check_isr(key)
        elif set(now.elr) - set(was.elr):
            self._check_isr(key)

    def check(self, life: Life, changed: Set[Key]) -> None:
        """`changed`: partitions whose files on this broker changed in this event."""
        assert life.broker is not None
        marks = self._marks.setdefault(life.node_id, {})
        for hosted in life.broker.partitions.all():
            replica = hosted.replica
            # The last stable offset is not part of it. It follows from the high watermark and the log. If the log had
            # changed, its files would have changed.
            mark = (hosted.log.log_end_offset, replica.high_watermark, replica.leader_epoch, replica.is_leader)
            if marks.get(hosted) == mark and (not changed or hosted.key not in changed):
                continue
            if hosted not in marks and (life.node_id, hosted.key) in self._removed:
                self._watched.pop((life.node_id, hosted.key), None)
                self._to_read_again.add((life.node_id, hosted.key))
            marks[hosted] = mark
            self._look_at(life, hosted, changed)

    def failing(self, life: Life, hosted: HostedPartition) -> None:
        """The storage of a replica fails now, in the middle of an event. What it has committed and reported in this
        event counts. What it has written in this event does not count as stored, because the sync may have failed."""
        if self._lives.get(life.node_id) is life:
            self._vouched[(life.node_id, hosted.key)] = len(self.mirror(life.node_id, hosted.key))
            self._look_at(life, hosted, {hosted.key})

    def _look_at(self, life: Life, hosted: HostedPartition, changed: Set[Key]) -> None:
        replica = hosted.replica
        topic = self._image.topics.get(hosted.topic)
        if topic is None or topic.topic_id != hosted.topic_id:
            return  # the topic was deleted, but this broker does not know it yet
        stable = hosted.log.last_stable_offset(replica.high_watermark) if replica.is_leader else 0
        now = Watched(
            replica.leader_epoch, replica.is_leader, replica.high_watermark, hosted.log.log_end_offset, stable
        )
        before = self._watched.get((life.node_id, hosted.key))
        self._watched[(life.node_id, hosted.key)] = now
        is_touched = before is None or hosted.key in changed
        mirror = self._update_mirror(life, hosted) if is_touched else self.mirror(life.node_id, hosted.key)
        replica.check_invariants()
        self._check_high_watermark(life, hosted, before, now)
        if now.is_leader:
            self._check_leader(life, hosted, before, mirror)
            self._advance(life, hosted, mirror)

    # -- what lies in the logs ---------------------------------------------------------------------------------------

    def _update_mirror(self, life: Life, hosted: HostedPartition) -> list[BatchSeen]:
        mirror = self.mirror(life.node_id, hosted.key)
        log = hosted.log
        if (life.node_id, hosted.key) in self._to_read_again:
            self._to_read_again.discard((life.node_id, hosted.key))
            mirror.clear()
        while mirror and mirror[-1].last_offset >= log.log_end_offset:
            mirror.pop()
        while True:
            start = mirror[-1].base_offset if mirror else log.log_start_offset
            found = self._read(life, hosted, max(start, log.log_start_offset))
            if not mirror:
                break
            if start < log.log_start_offset:  # DeleteRecords moved the start; deleted records are not checked any more
                drop_uncommitted(mirror, self.committed(hosted.key))
                found = [batch for batch in found if batch.base_offset > mirror[-1].last_offset]
                break
            if found and found[0] == mirror[-1]:
                found = found[1:]
                break
            mirror.pop()
        self._fill_gap(hosted.key, mirror, found[0].base_offset if found else log.log_end_offset)
        truth, is_compacted = self._truth(hosted.key), hosted.key in self.compacted
        for batch in found:
            if is_compacted:
                self._fill_gap(hosted.key, mirror, batch.base_offset)
            previous_epoch = mirror[-1].epoch if mirror else -1
            self._log_matching.check(truth, life.node_id, name_of(hosted.key), batch, previous_epoch=previous_epoch)
            mirror.append(batch)
        if is_compacted:
            self._fill_gap(hosted.key, mirror, log.log_end_offset)
        stored = self._stored.pop((life.node_id, hosted.key), None)
        if stored is not None:
            self._stored_is_there.check(
                life.node_id, name_of(hosted.key), log=mirror, stored=stored, log_end_offset=log.log_end_offset
            )
        if len(log.segments) > 1:
            self._coverage.reached("segment rolled")
        return mirror

    def _fill_gap(self, key: Key, mirror: list[BatchSeen], end_offset: int) -> None:
        """Fill the mirror with the batches below the start of this log and with those that compaction removed. Only
        committed records are removed, so the committed batches are used."""
        begin = mirror[-1].last_offset + 1 if mirror else 0
        if begin < end_offset:
            gone = [batch for batch in self._truth(key).committed if begin <= batch.base_offset < end_offset]
            mirror.extend(gone)

    def _read(self, life: Life, hosted: HostedPartition, start: int) -> list[BatchSeen]:
        log = hosted.log
        found: list[BatchSeen] = []
        while start < log.log_end_offset:
            data = log.read(start, 1 << 20)
            if not data:
                break
            for batch in iter_batches(data):
                self._batch_is_whole.check(life.node_id, name_of(hosted.key), batch)
                found.append(seen(batch))
                start = batch.header.next_offset
        return found

    # -- high watermark and leaders ----------------------------------------------------------------------------------

    def _check_high_watermark(self, life: Life, hosted: HostedPartition, before: Watched | None, now: Watched) -> None:
        if before is None or before.leader_epoch != now.leader_epoch or self.was_unclean(hosted.key):
            return  # after an unclean election a follower may truncate even committed records
        where = name_of(hosted.key)
        self._high_watermark.check(life.node_id, where, before, now)
        self._stable_offset.check(life.node_id, where, before, now)

    def _check_leader(
        self, life: Life, hosted: HostedPartition, before: Watched | None, mirror: list[BatchSeen]
    ) -> None:
        truth, epoch, where = self._truth(hosted.key), hosted.replica.leader_epoch, name_of(hosted.key)
        self._one_leader.check(truth, where, life.node_id, epoch)
        if len(hosted.replica.isr) < hosted.replica.effective_min_insync_replicas:
            self._coverage.reached("below min.insync.replicas")
        if before is not None and before.is_leader and before.leader_epoch == epoch:
            return
        if any(other.node_id != life.node_id and other.leads(hosted.key) for other in self._lives.values()):
            self._coverage.reached("two leaders at once")
        if truth.is_given_up and epoch >= truth.unclean_epoch:
            self._restart_truth(truth, mirror)
        else:
            self._never_lost.check(truth, where, life.node_id, epoch, log=mirror)

    def _restart_truth(self, truth: Truth, mirror: list[BatchSeen]) -> None:
        kept = min(len(truth.committed), len(mirror))
        while kept and truth.committed[kept - 1] != mirror[kept - 1]:
            kept -= 1
        del truth.committed[kept:], truth.committed_by[kept:]
        truth.is_given_up = False
        truth.sequences.clear()
        for batch in truth.committed:
            note_sequence(truth, batch)

    # -- what is committed -------------------------------------------------------------------------------------------

    def _advance(self, life: Life, hosted: HostedPartition, mirror: list[BatchSeen]) -> None:
        truth, replica = self._truth(hosted.key), hosted.replica
        if replica.leader_epoch < truth.unclean_epoch:
            return  # a later unclean election has given up what it commits now
        if replica.high_watermark <= truth.end_offset:
            return
        known = len(truth.committed)
        if not self._never_changes.check(truth, name_of(hosted.key), life.node_id, replica.leader_epoch, log=mirror):
            return
        for batch in mirror[known:]:
            if batch.last_offset >= replica.high_watermark:
                break
            self._sequences.check(truth, hosted.key, batch)
            note_sequence(truth, batch)
            truth.committed.append(batch)
            truth.committed_by.append(replica.leader_epoch)
            self._note_transaction(hosted.key, batch)
        self._check_holders(hosted, truth)
        self._check_isr(hosted.key)

    def _note_transaction(self, key: Key, batch: BatchSeen) -> None:
        producer = (batch.producer_id, batch.producer_epoch)
        if batch.is_control:
            self._transactions.marker_committed(
                key, producer=producer, is_commit=batch.is_commit, offset=batch.base_offset
            )
        elif batch.is_transactional:
            self._transactions.data_committed(
                key, producer=producer, base_sequence=batch.base_sequence, offset=batch.base_offset
            )

    def _check_holders(self, hosted: HostedPartition, truth: Truth) -> None:
        """Check that what is committed is on at least min.insync.replicas brokers, dead or alive."""
        if not self._counts_holders or not truth.committed:
            return
        wanted = min(hosted.config.min_insync_replicas, len(hosted.replica.replicas))
        # A dead broker counts. If it died within an event, it may have stored, synced and reported more than was seen.
        holders = [
            each
            for each in hosted.replica.replicas
            if self._lives[each].is_dead or holds(self.mirror(each, hosted.key), truth.committed)
        ]
        self._on_enough_brokers.check(name_of(hosted.key), end_offset=truth.end_offset, holders=holders, wanted=wanted)

    def _check_isr(self, key: Key) -> None:
        """Check that each member of the ISR, and each eligible replica, holds all that is committed, because it may be
        elected."""
        state, truth = self._image.partition(*key), self._truth(key)
        if state is None or state.leader < 0 or truth.leaders.get(state.leader_epoch) is None:
            return
        for member in (*state.isr, *state.elr):
            life = self._lives.get(member)
            registration = self._image.brokers.get(member)
            if life is None or life.is_dead or registration is None or registration.fenced:
                continue
            if life.broker_epoch != registration.broker_epoch or not life.hosts(key):
                continue
            log = self.mirror(member, key)
            if member in state.isr:
                self._isr_holds_all.check(truth, name_of(key), member, state.isr, log=log)
            else:
                self._elr_holds_all.check(truth, name_of(key), member, state.elr, log=log)
