"""Invariants of transactions, looked at whenever a batch is committed: the truth is what lies in the partitions' logs.

A transaction ends the same in every partition, as its producer asked and as it was told; nothing joins it after its
end; a fenced producer writes nothing; readers with read_committed see only what was committed; every transaction ends.
Which batch belongs to which transaction the simulated producers have noted before they sent it.

One thing is excused, and counted: with transaction version 1, where a producer keeps its epoch, a marker that its
coordinator repeated, and whose first sending comes late, ends the producer's next transaction in that partition. Only
the epochs of version 2 tell the two apart (KIP-890; KAFKA-19446).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from broker.sim.coverage import Coverage
from broker.wire.batch import RawBatch

Key = tuple[str, int]
Fail = Callable[[str, str], None]


@dataclass(slots=True, kw_only=True, eq=False)
class Attempt:
    """One transaction of one incarnation of a producer."""

    name: str
    number: int  # of its producer, ascending over incarnations
    bumps_epoch: bool  # transaction version 2
    is_torn: bool = False  # ended by a late marker: nothing is asked of it any more
    sent: dict[bytes, Key] = field(default_factory=dict)  # identity of each record -> where it was sent
    acked: set[bytes] = field(default_factory=set)
    offset: int | None = None  # committed for the group of its producer, as part of it
    asked: set[bool] = field(default_factory=set)  # ends that were asked for: True is commit
    answered: bool | None = None  # the end that its producer was told
    outcomes: dict[Key, bool] = field(default_factory=dict)  # by the marker in each partition
    in_log: dict[Key, set[bytes]] = field(default_factory=dict)

    @property
    def is_committed(self) -> bool | None:
        """None: there is no marker yet."""
        return next(iter(self.outcomes.values()), None)


class TransactionChecker:
    def __init__(self, *, fail: Fail, coverage: Coverage) -> None:
        self._fail, self._coverage = fail, coverage
        self.attempts: list[Attempt] = []
        self._batches: dict[tuple[Key, int, int, int], tuple[Attempt, tuple[bytes, ...]]] = {}
        self._open: dict[tuple[Key, int], list[Attempt]] = {}  # (partition, producer id) -> without a marker
        self._epochs: dict[tuple[Key, int], int] = {}  # (partition, producer id) -> the highest that was seen
        self._of_record: dict[bytes, Attempt] = {}
        self._markers: set[tuple[Key, int, int, bool]] = set()  # partition, producer id, epoch, whether it commits

    # -- what producers do -------------------------------------------------------------------------------------------

    def sending(
        self, attempt: Attempt, key: Key, *, producer: tuple[int, int], base_sequence: int, records: tuple[bytes, ...]
    ) -> None:
        """Before the first byte of the batch leaves its producer."""
        self._batches[(key, *producer, base_sequence)] = (attempt, records)
        for identity in records:
            attempt.sent[identity] = key
            self._of_record[identity] = attempt

    # -- what is committed -------------------------------------------------------------------------------------------

    def data_committed(self, key: Key, *, producer: tuple[int, int], base_sequence: int, offset: int) -> None:
        """A transactional batch is below the high watermark now."""
        producer_id, epoch = producer
        highest = self._epochs.get((key, producer_id), -1)
        if epoch < highest:
            self._fail(
                "a fenced producer writes nothing",
                f"{_name(key)} offset {offset}: producer {producer_id} epoch {epoch} after epoch {highest}",
            )
        self._epochs[(key, producer_id)] = max(highest, epoch)
        known = self._batches.get((key, producer_id, epoch, base_sequence))
        if known is None:
            return  # of an internal topic: written by its coordinator
        attempt, records = known
        if key in attempt.outcomes and not attempt.is_torn:
            self._fail(
                "nothing joins a transaction that has ended",
                f"{_name(key)} offset {offset}: a batch of {attempt.name} after its marker",
            )
        attempt.in_log.setdefault(key, set()).update(records)
        waiting = self._open.setdefault((key, producer_id), [])
        if attempt not in waiting:
            waiting.append(attempt)

    def marker_committed(self, key: Key, *, producer: tuple[int, int], is_commit: bool, offset: int) -> None:
        producer_id, epoch = producer
        self._epochs[(key, producer_id)] = max(self._epochs.get((key, producer_id), -1), epoch)
        marker = (key, producer_id, epoch, is_commit)
        is_repeated = marker in self._markers
        self._markers.add(marker)
        for attempt in self._open.pop((key, producer_id), ()):
            if is_repeated and not attempt.bumps_epoch and is_commit not in attempt.asked:
                attempt.is_torn = True
                self._coverage.reached("late marker of version 1")
            if attempt.is_torn:
                attempt.outcomes[key] = is_commit
                continue
            other = attempt.is_committed
            attempt.outcomes[key] = is_commit
            where = f"{attempt.name}: {_end(is_commit)} in {_name(key)} at offset {offset}"
            if other is not None and other != is_commit:
                self._fail("a transaction ends the same everywhere", f"{where}, {_end(other)} elsewhere")
            if is_commit and True not in attempt.asked:
                self._fail("only its producer commits a transaction", f"{where}, its producer never asked for it")
            if attempt.answered is not None and attempt.answered != is_commit:
                self._fail(
                    "a transaction ends as its producer was told", f"{where}, {_end(attempt.answered)} was answered"
                )

    def end_answered(self, attempt: Attempt, *, is_commit: bool) -> None:
        attempt.answered = is_commit
        self._coverage.reached("transaction committed" if is_commit else "transaction aborted")
        if attempt.is_torn:
            return
        if attempt.is_committed not in (None, is_commit):
            self._fail(
                "a transaction ends as its producer was told", f"{attempt.name}: answered {_end(is_commit)}, marked not"
            )

    # -- what readers get --------------------------------------------------------------------------------------------

    def read_committed(
        self,
        key: Key,
        batches: Iterable[RawBatch],
        identities: Callable[[RawBatch], list[bytes]],
        aborted: list[tuple[int, int]],
    ) -> None:
        """What a consumer gives out of these batches; `aborted` are (producer id, first offset) of the answer."""
        left = sorted(aborted, key=lambda each: each[1])
        skipped: set[int] = set()
        for batch in batches:
            header = batch.header
            while left and left[0][1] <= header.last_offset:
                skipped.add(left.pop(0)[0])
            if header.is_control:
                skipped.discard(header.producer_id)
                continue
            if header.is_transactional and header.producer_id in skipped:
                self._coverage.reached("aborted records skipped by a reader")
                continue
            for identity in identities(batch):
                attempt = self._of_record.get(identity)
                if attempt is not None and not attempt.is_torn and attempt.outcomes.get(key) is not True:
                    self._fail(
                        "readers see committed transactions only",
                        f"{_name(key)} offset {header.base_offset}: a record of {attempt.name}, which is "
                        f"{'aborted' if key in attempt.outcomes else 'not decided yet'}",
                    )
                    return

    # -- at the end --------------------------------------------------------------------------------------------------

    @property
    def has_open(self) -> bool:
        return any(self._open.values())

    def open_text(self) -> str:
        return ", ".join(f"{each.name} in {_name(key)}" for (key, _), some in self._open.items() for each in some)

    def compare(self) -> None:
        """All or nothing: of a committed transaction everything that was acknowledged, of an aborted one nothing."""
        for attempt in self.attempts:
            if attempt.answered is True and not attempt.is_torn:
                for identity in attempt.acked:
                    key = attempt.sent[identity]
                    if identity not in attempt.in_log.get(key, ()) or attempt.outcomes.get(key) is not True:
                        self._fail(
                            "a committed transaction is whole",
                            f"{attempt.name}: {identity!r} of {_name(key)} is missing",
                        )

    def committed_offset(self, producer: str) -> int:
        """The last offset that a committed transaction of this producer carried, -1 for none."""
        offsets = [
            each.offset
            for each in self.attempts
            if each.name.startswith(f"{producer}:")
            and (each.answered if each.is_torn else each.is_committed)
            and each.offset is not None
        ]
        return max(offsets, default=-1)


def _end(is_commit: bool) -> str:
    return "committed" if is_commit else "aborted"


def _name(key: Key) -> str:
    return f"{key[0]}-{key[1]}"
