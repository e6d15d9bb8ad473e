"""One delivery: which records of a share partition a member gets, of those that were read from the log for it.

Records that are offered again come first, then new ones. Records that were given together the first time make an
*in-flight batch*. A record that was delivered often may be what members die of. So from half of the allowed deliveries
on it comes with ever fewer others of its batch and with no other batch, and the last time alone. The rules and their
numbers are those of Apache Kafka 4.3.1 (SharePartition).

Shown by tests/broker_sharing/test_sharing_held_back.py and test_sharing_partition.py.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from broker.node.features.share_groups.delivery.runs import NOBODY, Run, Runs
from broker.node.features.share_groups.delivery.state_batches import DeliveryState

HELD_BACK_MIN = 2  # a record that was delivered once comes with all others, however small the limit is


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Settings of the group, which may change at any time."""

    delivery_count_limit: int = 5
    record_locks_max: int = 2_000
    lock_duration_ms: int = 30_000

    @property
    def held_back_from(self) -> int:
        """A record that was delivered this often comes with fewer others."""
        return max(HELD_BACK_MIN, -(-self.delivery_count_limit // 2))

    def is_last_delivery(self, delivery_count: int) -> bool:
        """Whether the record comes alone, because it may be delivered only once more."""
        return self.delivery_count_limit > HELD_BACK_MIN and delivery_count == self.delivery_count_limit - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What was read from the log at `fetch_offset`: (first, last offset) of each record batch, ascending. `hidden`:
    those of aborted transactions, which no member gets, ascending too."""

    fetch_offset: int
    batches: Sequence[tuple[int, int]]
    hidden: Sequence[tuple[int, int]] = ()

    @property
    def first(self) -> int:
        return self.batches[0][0]

    @property
    def last(self) -> int:
        return self.batches[-1][1]

    def end_of_record_batch(self, offset: int) -> int:
        """The last offset of the record batch that has this offset; the offset itself if none has it."""
        place = bisect_left(self.batches, offset, key=_last)
        return self.batches[place][1] if place < len(self.batches) and self.batches[place][0] <= offset else offset

    def hidden_from(self, offset: int) -> Iterator[tuple[int, int]]:
        """The hidden ranges that do not end before this offset."""
        for place in range(bisect_left(self.hidden, offset, key=_last), len(self.hidden)):
            yield self.hidden[place]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquired:
    first_offset: int
    last_offset: int
    delivery_count: int

    @property
    def count(self) -> int:
        return self.last_offset - self.first_offset + 1


@dataclass(slots=True, kw_only=True)
class Delivery:
    """To one member. `left` is how many records it still gets. Unless `is_strict`, an in-flight batch is given as a
    whole, and of new records the last record batch, because its bytes are sent anyway. So the member may get more."""

    runs: Runs
    limits: Limits
    member: str
    deadline_ms: int
    fetched: Fetched
    batch_size: int
    is_strict: bool
    left: int

    def again(self) -> list[Acquired]:
        """Give what is offered again."""
        found, rest = list[Acquired](), self.left
        for runs in self._offered():
            if self.left <= 0:
                break
            is_held_back = any(run.delivery_count >= self.limits.held_back_from for run in runs)
            if is_held_back and found:
                self.left = 0
                break
            given = self._first_time(runs[0]) if runs[0].in_flight_batch is None else self._of_one_batch(runs)
            found += given
            rest -= sum(each.count for each in given)
            self.left = 0 if is_held_back else rest
        return [part for each in found for part in self._visible(each)]

    def _visible(self, given: Acquired) -> list[Acquired]:
        """Takes back what no member gets. It counts against the limit all the same, as in Kafka."""
        found, low = list[Acquired](), given.first_offset
        for begin, end in self.fetched.hidden_from(low):
            if begin > given.last_offset:
                break
            first, last = max(begin, low), min(end, given.last_offset)
            for run in self.runs.between(first, last):
                run.state, run.member, run.lock_deadline_ms = DeliveryState.ARCHIVED, NOBODY, 0
            if low < first:
                found.append(replace(given, first_offset=low, last_offset=first - 1))
            low = last + 1
        return [*found, replace(given, first_offset=low)] if low <= given.last_offset else found

    def _offered(self) -> list[list[Run]]:
        """The offered runs of each in-flight batch. A run that belongs to none stands alone."""
        offered = [run for run in self.runs.overlapping(self.fetched.first, self.fetched.last) if run.is_offered]
        groups = groupby(offered, key=lambda run: run.in_flight_batch or run.first)
        return [list(runs) for _, runs in groups]

    def _of_one_batch(self, runs: list[Run]) -> list[Acquired]:
        """Each record of the batch is judged by its own count. Where one is held back, the count of all that are given
        of this batch counts against the size that it is held back to."""
        batch = runs[0].in_flight_batch
        assert batch is not None
        size = batch[1] - batch[0] + 1
        found: list[Acquired] = []
        given, count_max = 0, None
        for run in runs:
            is_last_delivery = self.limits.is_last_delivery(run.delivery_count)
            if is_last_delivery and given:
                break
            beyond = run.delivery_count - self.limits.held_back_from
            if count_max is None and beyond >= 0:
                count_max = max(1, size >> (beyond + 1))
            low, high = max(run.first, self.fetched.first), min(run.last, self.fetched.last)
            if self.is_strict:
                high = min(high, low + self.left - given - 1)
            if count_max is not None and given < count_max:
                high = min(high, low + count_max - given - 1)
            found.append(self._give(low, low if is_last_delivery else high))
            given += found[-1].count
            if is_last_delivery or given == count_max or (self.is_strict and given >= self.left):
                break
        return found

    def _first_time(self, run: Run) -> list[Acquired]:
        """Records that no member is known to have, before others that are in flight: an earlier leader gave them, or
        passed over them."""
        low, end = max(run.first, self.fetched.first), min(run.last, self.fetched.last)
        high = self._limited(low, end, self.left)
        if not self.is_strict:
            return [self._give(first, last, (first, last)) for first, last in self._pieces(low, high)]
        # The record batch comes as a whole, so its rest belongs to the in-flight batch too.
        batch = (low, min(end, self.fetched.end_of_record_batch(high)))
        for rest in self.runs.between(*batch):
            rest.in_flight_batch = batch
        return [self._give(low, high)]

    def _give(self, first: int, last: int, in_flight_batch: tuple[int, int] | None = None) -> Acquired:
        (taken,) = self.runs.between(first, last)
        taken.state, taken.member, taken.lock_deadline_ms = DeliveryState.ACQUIRED, self.member, self.deadline_ms
        taken.delivery_count += 1
        taken.in_flight_batch = in_flight_batch or taken.in_flight_batch
        return Acquired(first_offset=first, last_offset=last, delivery_count=taken.delivery_count)

    # -- new records -------------------------------------------------------------------------------------------------

    def new(self, room: int) -> list[Acquired]:
        """Give records that no member has had yet, if there is room for so many more in flight."""
        self.left = min(self.left, room)
        low, end = self.runs.end, self.fetched.last
        if self.left <= 0 or low > end:
            return []
        found: list[Acquired] = []
        whole = min(end, self.fetched.end_of_record_batch(low + self.left - 1))
        for first, last in self._pieces(low, self._limited(low, end, self.left)):
            batch = (first, whole if self.is_strict else last)
            self.runs.append(
                last,
                DeliveryState.ACQUIRED,
                1,
                in_flight_batch=batch,
                member=self.member,
                lock_deadline_ms=self.deadline_ms,
            )
            found += self._visible(Acquired(first_offset=first, last_offset=last, delivery_count=1))
            self.left -= last - first + 1
            if last < batch[1]:  # the rest of a record batch that came as a whole
                self.runs.append(batch[1], DeliveryState.AVAILABLE, 0, in_flight_batch=batch)
        return found

    def _limited(self, first: int, last: int, count: int) -> int:
        """The last offset of about `count` offsets from `first` on, at most `last`."""
        high = min(last, first + count - 1)
        return high if self.is_strict else min(last, self.fetched.end_of_record_batch(high))

    def _pieces(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The in-flight batches of new records: whole record batches of at least `batch_size` records together. With a
        strict limit there is one."""
        while first <= last:
            high = last if self.is_strict else first + max(self.batch_size, 1) - 1
            end = min(last, self.fetched.end_of_record_batch(high))
            yield first, end
            first = end + 1


def _last(batch: tuple[int, int]) -> int:
    return batch[1]
