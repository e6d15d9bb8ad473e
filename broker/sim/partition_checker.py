"""Invariants of the partitions, looked at after every event of a broker.

Log matching, one leader per epoch, nothing committed is lost, the high watermark never falls within an epoch, members
of the ISR hold all that is committed, idempotence. Truth is what lies in the logs, read back from the simulated disks,
and the ISRs and leaders that the controllers committed.

"Committed" is what was below the high watermark of a leader at any time. After an unclean election, which gives up
records by its nature, the new leader's log is the new truth.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from broker.controller.image import MetadataImage, PartitionState
from broker.sim.coverage import Coverage
from broker.sim.transaction_checker import TransactionChecker
from broker.wire.batch import RawBatch
from broker.wire.records import decode_records, iter_batches

if TYPE_CHECKING:
    from broker.node.partitions import HostedPartition
    from broker.sim.cluster import Life

Key = tuple[str, int]
Fail = Callable[[str, str], None]


class BatchSeen(NamedTuple):
    base_offset: int
    last_offset: int
    epoch: int
    crc: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    is_control: bool
    is_transactional: bool
    is_commit: bool  # of a marker


@dataclass(slots=True)
class _Truth:
    """One partition, over all brokers."""

    committed: list[BatchSeen] = field(default_factory=list)
    committed_by: list[int] = field(default_factory=list)  # of each: the leader epoch whose leader committed it
    sequences: dict[int, tuple[int, int]] = field(default_factory=dict)  # producer id -> (epoch, last sequence)
    leaders: dict[int, int] = field(default_factory=dict)  # leader epoch -> broker
    unclean_epoch: int = -1  # the last leader epoch that began with an unclean election
    is_given_up: bool = False  # the leader of that epoch, or of one after it, was not seen yet
    chain: dict[tuple[int, int], tuple[BatchSeen, int]] = field(default_factory=dict)

    @property
    def end_offset(self) -> int:
        return self.committed[-1].last_offset + 1 if self.committed else 0

    def committed_until(self, epoch: int) -> list[BatchSeen]:
        """What the leader of this epoch must hold. A broker may hear late that it led, when another already commits
        in a later epoch: of that it knows nothing, and needs not."""
        count = len(self.committed)
        while count and self.committed_by[count - 1] > epoch:
            count -= 1
        return self.committed if count == len(self.committed) else self.committed[:count]


class _Watched(NamedTuple):
    """What of a replica was seen last."""

    leader_epoch: int
    is_leader: bool
    high_watermark: int
    log_end_offset: int
    last_stable_offset: int  # of a leader, else 0


# What tells that a replica changed: log end offset, high watermark, leader epoch, whether it leads.
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
        self._fail, self._coverage, self._transactions = fail, coverage, transactions
        self._counts_holders = not can_lose_power_unsynced
        self._has_strangers = has_strangers
        self._truths: dict[Key, _Truth] = {}
        self._mirrors: dict[tuple[int, Key], list[BatchSeen]] = {}
        self._watched: dict[tuple[int, Key], _Watched] = {}
        self._marks: dict[int, dict[HostedPartition, _Mark]] = {}  # by node
        self._to_read_again: set[tuple[int, Key]] = set()  # in a new life the disk may hold anything anywhere
        # What an earlier life had in its log, synced: (how many batches, the last of them).
        self._stored: dict[tuple[int, Key], tuple[int, BatchSeen]] = {}
        self._lives: dict[int, Life] = {}
        self._image = MetadataImage()

    # -- reading -----------------------------------------------------------------------------------------------------

    def leader_epoch(self, key: Key) -> int:
        """The one that the controllers committed last, -1 before the first."""
        state = self._image.partition(*key)
        return -1 if state is None else state.leader_epoch

    def has_uncommitted(self, node_id: int, key: Key) -> bool:
        """Whether this broker's log has records behind what is committed."""
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

    def _truth(self, key: Key) -> _Truth:
        return self._truths.setdefault(key, _Truth())

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
                self._to_read_again.add((node_id, key))
                if mirror and is_known and self._counts_holders:
                    self._stored[(node_id, key)] = len(mirror), mirror[-1]

    def has_watched(self, node_id: int, key: Key) -> bool:
        """Whether this life of the broker has hosted it."""
        return (node_id, key) in self._watched

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        self._image = new
        for name, topic in old.topics.items():
            if name not in new.topics or new.topics[name].topic_id != topic.topic_id:
                self._forget(name)
        for name, topic in new.topics.items():
            before = old.topics.get(name)
            if before is None or before.partitions is topic.partitions or before.topic_id != topic.topic_id:
                continue
            for index, (was, now) in enumerate(zip(before.partitions, topic.partitions, strict=False)):
                if was is not now:
                    self._state_changed((name, index), was, now)

    def _forget(self, name: str) -> None:
        """The topic was deleted; one of the same name begins anew."""
        for key in [key for key in self._truths if key[0] == name]:
            del self._truths[key]
        for node_and_key in [each for each in self._mirrors if each[1][0] == name]:
            del self._mirrors[node_and_key]
        for node_and_key in [each for each in self._watched if each[1][0] == name]:
            del self._watched[node_and_key]
        self._to_read_again = {each for each in self._to_read_again if each[1][0] != name}
        self._stored = {each: stored for each, stored in self._stored.items() if each[1][0] != name}

    def _state_changed(self, key: Key, was: PartitionState, now: PartitionState) -> None:
        if now.leader not in (-1, was.leader):
            self._coverage.reached("leader elected")
            topic = self._image.topics[key[0]]
            if (
                self._image.has_offline(was.leader, topic.topic_id, key[1])
                and was.leader in self._image.live_broker_ids()
            ):
                self._coverage.reached("leadership handed on")
            if now.leader not in was.isr:
                truth = self._truth(key)
                truth.unclean_epoch, truth.is_given_up = now.leader_epoch, True
        if len(now.isr) == 1 and len(was.isr) > 1:
            self._coverage.reached("isr of one")
        if set(was.isr) - set(now.isr):
            self._coverage.reached("isr shrunk")
        if set(now.isr) - set(was.isr):
            self._coverage.reached("isr expanded")
            self._check_isr(key)

    def check(self, life: Life, changed: Set[Key]) -> None:
        """`changed`: whose files were touched in this event."""
        assert life.broker is not None
        marks = self._marks.setdefault(life.node_id, {})
        for hosted in life.broker.partitions.all():
            replica = hosted.replica
            # The last stable offset follows from the log, whose files would have been touched, and the high watermark.
            mark = (hosted.log.log_end_offset, replica.high_watermark, replica.leader_epoch, replica.is_leader)
            if marks.get(hosted) == mark and (not changed or hosted.key not in changed):
                continue
            marks[hosted] = mark
            self._look_at(life, hosted, changed)

    def failing(self, life: Life, hosted: HostedPartition) -> None:
        """Its storage fails now, in the midst of an event. What it has committed and told in this event counts."""
        if self._lives.get(life.node_id) is life:
            self._look_at(life, hosted, {hosted.key})

    def _look_at(self, life: Life, hosted: HostedPartition, changed: Set[Key]) -> None:
        replica = hosted.replica
        topic = self._image.topics.get(hosted.topic)
        if topic is None or topic.topic_id != hosted.topic_id:
            return  # deleted; this broker has not heard of it yet
        stable = hosted.log.last_stable_offset(replica.high_watermark) if replica.is_leader else 0
        now = _Watched(
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
            if start < log.log_start_offset:  # DeleteRecords: what is gone is not looked at any more
                found = [batch for batch in found if batch.base_offset > mirror[-1].last_offset]
                break
            if found and found[0] == mirror[-1]:
                found = found[1:]
                break
            mirror.pop()
        self._fill_gap(hosted.key, mirror, found[0].base_offset if found else log.log_end_offset)
        for batch in found:
            self._check_chain(life, hosted.key, mirror, batch)
            mirror.append(batch)
        stored = self._stored.pop((life.node_id, hosted.key), None)
        if stored is not None and (len(mirror) < stored[0] or mirror[stored[0] - 1] != stored[1]):
            self._fail(
                "what a replica has stored is there in its next life",
                f"broker {life.node_id} {_name(hosted.key)}: the log ends at {log.log_end_offset}, it had been synced "
                f"up to {stored[1].last_offset + 1}",
            )
        if log.segment_count > 1:
            self._coverage.reached("segment rolled")
        return mirror

    def _fill_gap(self, key: Key, mirror: list[BatchSeen], end_offset: int) -> None:
        """For what lies below the start of this log: only committed records go, so they stand for themselves."""
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
                header = batch.header
                if not batch.is_crc_valid():
                    self._fail(
                        "every batch in a log is whole",
                        f"broker {life.node_id} {_name(hosted.key)}: wrong CRC at offset {header.base_offset}",
                    )
                found.append(
                    BatchSeen(
                        header.base_offset,
                        header.last_offset,
                        header.partition_leader_epoch,
                        header.crc,
                        header.producer_id,
                        header.producer_epoch,
                        header.base_sequence,
                        header.last_sequence,
                        header.is_control,
                        header.is_transactional,
                        header.is_control and _is_commit(batch),
                    )
                )
                start = header.next_offset
        return found

    def _check_chain(self, life: Life, key: Key, mirror: list[BatchSeen], batch: BatchSeen) -> None:
        """Two logs with a batch of the same offset and leader epoch are equal up to it (KIP-101)."""
        previous = mirror[-1].epoch if mirror else -1
        known = self._truth(key).chain.setdefault((batch.base_offset, batch.epoch), (batch, previous))
        if known != (batch, previous):
            self._fail(
                "log matching",
                f"broker {life.node_id} {_name(key)}: offset {batch.base_offset} of leader epoch {batch.epoch} is "
                f"{batch} after epoch {previous}, elsewhere {known[0]} after epoch {known[1]}",
            )

    # -- high watermark and leaders ----------------------------------------------------------------------------------

    def _check_high_watermark(
        self, life: Life, hosted: HostedPartition, before: _Watched | None, now: _Watched
    ) -> None:
        if before is None or before.leader_epoch != now.leader_epoch or self.was_unclean(hosted.key):
            return  # after an unclean election a follower gives up even what was committed
        if before.is_leader == now.is_leader and now.high_watermark < before.high_watermark:
            self._fail(
                "the high watermark never falls within an epoch",
                f"broker {life.node_id} {_name(hosted.key)} epoch {now.leader_epoch}: "
                f"{before.high_watermark} to {now.high_watermark}",
            )
        if before.is_leader == now.is_leader and now.last_stable_offset < before.last_stable_offset:
            self._fail(
                "the last stable offset never falls within an epoch",
                f"broker {life.node_id} {_name(hosted.key)} epoch {now.leader_epoch}: "
                f"{before.last_stable_offset} to {now.last_stable_offset}",
            )

    def _check_leader(
        self, life: Life, hosted: HostedPartition, before: _Watched | None, mirror: list[BatchSeen]
    ) -> None:
        truth, epoch = self._truth(hosted.key), hosted.replica.leader_epoch
        known = truth.leaders.setdefault(epoch, life.node_id)
        if known != life.node_id:
            self._fail(
                "one leader per epoch", f"{_name(hosted.key)}: brokers {known} and {life.node_id} in epoch {epoch}"
            )
        if len(hosted.replica.isr) < hosted.replica.effective_min_insync_replicas:
            self._coverage.reached("below min.insync.replicas")
        if before is not None and before.is_leader and before.leader_epoch == epoch:
            return
        if any(other.node_id != life.node_id and other.leads(hosted.key) for other in self._lives.values()):
            self._coverage.reached("two leaders at once")
        if truth.is_given_up and epoch >= truth.unclean_epoch:
            self._restart_truth(truth, mirror)
        elif epoch > truth.unclean_epoch and not _holds(mirror, truth.committed_until(epoch)):
            self._fail(
                "a committed record is never lost",
                f"broker {life.node_id} leads {_name(hosted.key)} in epoch {epoch} with a log up to "
                f"{mirror[-1].last_offset + 1 if mirror else 0}, committed was up to {truth.end_offset}",
            )

    def _restart_truth(self, truth: _Truth, mirror: list[BatchSeen]) -> None:
        kept = min(len(truth.committed), len(mirror))
        while kept and truth.committed[kept - 1] != mirror[kept - 1]:
            kept -= 1
        del truth.committed[kept:], truth.committed_by[kept:]
        truth.is_given_up = False
        truth.sequences.clear()
        for batch in truth.committed:
            self._note_sequence(truth, batch)

    # -- what is committed -------------------------------------------------------------------------------------------

    def _advance(self, life: Life, hosted: HostedPartition, mirror: list[BatchSeen]) -> None:
        truth, replica = self._truth(hosted.key), hosted.replica
        if replica.leader_epoch < truth.unclean_epoch:
            return  # what it commits now is already given up
        if replica.high_watermark <= truth.end_offset:
            return
        known = len(truth.committed)
        if known and (len(mirror) < known or mirror[known - 1] != truth.committed[-1]):
            self._fail(
                "a committed record never changes",
                f"broker {life.node_id} leads {_name(hosted.key)} in epoch {replica.leader_epoch} with another batch "
                f"at offset {truth.committed[-1].base_offset}",
            )
            return
        for batch in mirror[known:]:
            if batch.last_offset >= replica.high_watermark:
                break
            self._check_sequence(truth, hosted.key, batch)
            self._note_sequence(truth, batch)
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

    def _check_holders(self, hosted: HostedPartition, truth: _Truth) -> None:
        """What is committed lies on min.insync.replicas brokers at least, dead or alive."""
        if not self._counts_holders or not truth.committed:
            return
        wanted = min(hosted.config.min_insync_replicas, len(hosted.replica.replicas))
        # One that died within an event may have stored, synced and told more than was seen of it: it counts.
        holders = [
            each
            for each in hosted.replica.replicas
            if self._lives[each].is_dead or _holds(self.mirror(each, hosted.key), truth.committed)
        ]
        if len(holders) < wanted:
            self._fail(
                "committed means on min.insync.replicas brokers",
                f"{_name(hosted.key)} up to {truth.end_offset}: only on {holders}, {wanted} are needed",
            )

    def _check_isr(self, key: Key) -> None:
        """Any member of the ISR may be elected: it holds all that is committed."""
        state, truth = self._image.partition(*key), self._truth(key)
        if state is None or state.leader < 0 or truth.leaders.get(state.leader_epoch) is None:
            return
        for member in state.isr:
            life = self._lives.get(member)
            registration = self._image.brokers.get(member)
            if life is None or life.is_dead or registration is None or registration.fenced:
                continue
            if life.broker_epoch != registration.broker_epoch or not life.hosts(key):
                continue
            if not _holds(self.mirror(member, key), truth.committed):
                self._fail(
                    "members of the ISR hold all that is committed",
                    f"{_name(key)}: broker {member} in {state.isr} has not all up to {truth.end_offset}",
                )

    def _check_sequence(self, truth: _Truth, key: Key, batch: BatchSeen) -> None:
        if batch.producer_id < 0 or batch.base_sequence < 0 or batch.is_control:
            return  # nobody's sequences mean nothing; a coordinator writes the offsets of a transaction without any
        known = truth.sequences.get(batch.producer_id)
        if known is None and self._has_strangers:
            return  # of a producer that it does not know a broker takes any sequence
        expected = 0 if known is None or batch.producer_epoch > known[0] else known[1] + 1
        is_old = known is not None and batch.producer_epoch < known[0]
        if is_old or batch.base_sequence < expected:
            self._fail(
                "idempotence: no batch twice",
                f"{_name(key)} offset {batch.base_offset}: producer {batch.producer_id} epoch {batch.producer_epoch} "
                f"sequence {batch.base_sequence}, the last committed was {known}",
            )
        elif batch.base_sequence > expected and truth.unclean_epoch < 0:
            self._fail(
                "idempotence: no batch is missing",
                f"{_name(key)} offset {batch.base_offset}: producer {batch.producer_id} epoch {batch.producer_epoch} "
                f"sequence {batch.base_sequence}, expected {expected}",
            )

    def _note_sequence(self, truth: _Truth, batch: BatchSeen) -> None:
        if batch.base_sequence >= 0 and not batch.is_control:
            truth.sequences[batch.producer_id] = (batch.producer_epoch, batch.last_sequence)


def _is_commit(batch: RawBatch) -> bool:
    """Of a marker: version and type are in the key of its one record."""
    key = decode_records(batch)[0][2]
    return key is not None and int.from_bytes(key[2:4], "big") == 1


def _holds(mirror: list[BatchSeen], committed: list[BatchSeen]) -> bool:
    """By log matching, the last batch stands for all before it."""
    return not committed or (len(mirror) >= len(committed) and mirror[len(committed) - 1] == committed[-1])


def _name(key: Key) -> str:
    return f"{key[0]}-{key[1]}"
