"""Which records a fault must damage, said from journals, log dumps and the wire, without looking at the outcome.

Pure: takes the event lines of one cell, gives offset intervals. `analyse.py` turns them into identities through the
acknowledgements (loss) or the final log (duplicates, order). tests/reports/test_reports_predict.py shows each rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from reports.model import Cell, Json

NEVER_US = 2**62
WITHHELD = ("dropped", "replaced")  # appended, but the client was not told, or told something else
DISK = "disk"  # source of a truncation that a power loss made, not a leader


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Offsets [from_offset, end_offset) of a partition. For `lost`: sends acknowledged in [after_us, before_us)."""

    kind: str
    partition: int
    from_offset: int
    end_offset: int
    after_us: int = 0
    before_us: int = NEVER_US


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    intervals: tuple[Interval, ...]
    how: dict[str, str]  # kind -> sentence


@dataclass(slots=True, kw_only=True)
class _Batch:
    """One batch of a client as wire and journal saw it: identified by client id, partition and CRC."""

    client_id: str
    partition: int
    records: int = 0
    first_mono_ns: int | None = None
    first_correlation_id: int | None = None
    base_offset: int | None = None
    t_us: int = 0


def predict(cell: Cell) -> Prediction:
    """Intervals that must be lost, duplicated or reordered, and how each was found out."""
    lost, how_lost = _lost(cell)
    duplicated, how_duplicated = _duplicated(cell)
    reordered, how_reordered = _reordered(cell)
    return Prediction(
        intervals=(*lost, *duplicated, *reordered),
        how={"lost": how_lost, "duplicated": how_duplicated, "reordered": how_reordered},
    )


def _events(cell: Cell, *kinds: str) -> list[Json]:
    """Events of the cell's own topic; events without a topic belong to no partition and are left out."""
    topic = cell.part("topic").get("name")
    return [
        event
        for event in cell.events
        if event.get("kind") in kinds
        and isinstance(event.get("partition"), int)
        and (topic is None or event.get("topic", topic) == topic)
    ]


# Loss: what a truncation removed although it had been acknowledged.


def _lost(cell: Cell) -> tuple[list[Interval], str]:
    truncations = _events(cell, "truncated")
    leader_changes = _events(cell, "became_leader", "leader")
    journal = _appended(cell)
    saved = _saved_elsewhere(journal, truncations)
    intervals: list[Interval] = []
    without_cause = 0
    for event in truncations:
        first, end = int(event["to_offset"]), int(event["from_offset"])
        if event.get("source") == DISK:
            first = max(first, _taken_up_from(leader_changes, event))
        if first >= end:
            continue
        partition, epoch = int(event["partition"]), int(event.get("leader_epoch", -1))
        own = [item for item in journal if _touches(item, partition, first, end)]
        if any(int(item["leader_epoch"]) == epoch for item in own):
            intervals += _by_appends(own, partition, first, end, epoch, saved)
            continue
        cause_us = leader_change_us(leader_changes, partition, epoch)
        if cause_us is None:
            without_cause += 1
            cause_us = int(event["t_us"])
        intervals.append(
            Interval(kind="lost", partition=partition, from_offset=first, end_offset=end, before_us=cause_us)
        )
    if not truncations:
        return [], "no replica truncated its log"
    sources = " and ".join(sorted({str(event.get("source", "journal")) for event in truncations}))
    how = f"acknowledged sends at the offsets that {len(truncations)} truncation(s) removed ({sources}), " + (
        "acknowledged after the append that was removed and before a later leader appended there"
        if journal
        else "acknowledged before the leader change that caused each"
    )
    if without_cause:
        how += f"; {without_cause} had no recorded leader change, their own time stands in"
    return intervals, how


def _touches(append: Json, partition: int, first: int, end: int) -> bool:
    return (
        int(append["partition"]) == partition
        and int(append["base_offset"]) < end
        and int(append["last_offset"]) >= first
    )


def _by_appends(
    appends: list[Json], partition: int, first: int, end: int, epoch: int, saved: set[tuple[str, int, int]]
) -> list[Interval]:
    """What the removed appends put at [first, end), each stretch with the time in which an answer must mean them.

    An answer for an offset means the removed append if it came after that append and before a leader of a later epoch
    appended there. A leader that did not know that it was none any more (a zombie) may append after its successor did:
    then all answers from that moment on are its own.
    """
    found: list[Interval] = []
    later = [item for item in appends if int(item["leader_epoch"]) > epoch]
    for item in appends:
        if int(item["leader_epoch"]) != epoch or _batch_key(item) in saved:
            continue
        low, high = max(first, int(item["base_offset"])), min(end, int(item["last_offset"]) + 1)
        old_us = int(item["t_us"])
        marks = {low, high}
        for other in later:
            marks |= {m for m in (int(other["base_offset"]), int(other["last_offset"]) + 1) if low < m < high}
        edges = sorted(marks)
        for begin, stop in pairwise(edges):
            new_us = min(
                (int(o["t_us"]) for o in later if int(o["base_offset"]) <= begin <= int(o["last_offset"])),
                default=NEVER_US,
            )
            found.append(
                Interval(
                    kind="lost",
                    partition=partition,
                    from_offset=begin,
                    end_offset=stop,
                    after_us=old_us,
                    before_us=new_us if new_us > old_us else NEVER_US,
                )
            )
    return found


def _saved_elsewhere(journal: list[Json], truncations: list[Json]) -> set[tuple[str, int, int]]:
    """Batches of which another append stayed: the client had sent them twice."""
    removed = [
        (int(e["partition"]), int(e.get("leader_epoch", -1)), int(e["to_offset"]), int(e["from_offset"]))
        for e in truncations
        if e.get("source") != DISK
    ]
    return {
        _batch_key(item)
        for item in journal
        if not any(
            int(item["partition"]) == partition
            and int(item["leader_epoch"]) == epoch
            and int(item["last_offset"]) >= first
            and int(item["base_offset"]) < end
            for partition, epoch, first, end in removed
        )
    }


def _taken_up_from(leader_changes: Iterable[Json], event: Json) -> int:
    """A disk that forgot loses nothing that the next leader has: only what lies beyond that one's log end."""
    later = [
        change
        for change in leader_changes
        if change.get("kind") == "became_leader"
        and change.get("partition") == event["partition"]
        and int(change.get("t_us", 0)) > int(event["t_us"])
    ]
    first = min(later, key=lambda change: int(change["t_us"]), default=None)
    return NEVER_US if first is None else int(first.get("log_end_offset", 0))


def leader_change_us(leader_changes: Iterable[Json], partition: int, epoch_of_records: int) -> int | None:
    """When the first leader of a later epoch than the truncated records' took over, by journal or by probe."""
    times = [
        int(event["t_us"])
        for event in leader_changes
        if event.get("partition") == partition and int(event.get("leader_epoch", -1)) > epoch_of_records
    ]
    return min(times, default=None)


# Duplicates: a batch that was appended, whose response was withheld, and which was appended again.


def is_idempotent(cell: Cell) -> bool:
    value = cell.effective_client.get("enable.idempotence")
    return str(value).strip().lower() == "true"


def _appended(cell: Cell) -> list[Json]:
    return [event for event in _events(cell, "appended") if event.get("source", "journal") == "journal"]


def _wire(cell: Cell) -> list[Json]:
    topic = cell.part("topic").get("name")
    lines = [
        line
        for line in cell.wire
        if isinstance(line.get("partition"), int) and (topic is None or line.get("topic", topic) == topic)
    ]
    return sorted(lines, key=lambda line: int(line.get("mono_ns", 0)))


def _succeeded(line: Json) -> bool:
    """The broker appended this exchange's batch and said so, whether or not the client heard it."""
    return (
        line.get("outcome") in ("delivered", *WITHHELD)
        and line.get("error_code") == 0
        and isinstance(line.get("base_offset"), int)
        and int(line["base_offset"]) >= 0
    )


def _batch_key(line: Json) -> tuple[str, int, int]:
    return str(line.get("client_id")), int(line["partition"]), int(line.get("crc", -1))


def _duplicated(cell: Cell) -> tuple[list[Interval], str]:
    wire = _wire(cell)
    dropped = [line for line in wire if line.get("outcome") in WITHHELD and _succeeded(line)]
    if not dropped:
        return [], "no response to an appended Produce request was withheld"
    journal = _appended(cell)
    appended_at: dict[tuple[int, int], set[int]] = defaultdict(set)
    for event in journal:
        appended_at[(int(event["partition"]), int(event.get("crc", -1)))].add(int(event["base_offset"]))
    successes: dict[tuple[str, int, int], set[int]] = defaultdict(set)
    attempts: dict[tuple[str, int, int], int] = defaultdict(int)
    for line in wire:
        attempts[_batch_key(line)] += 1
        if _succeeded(line):
            successes[_batch_key(line)].add(int(line["base_offset"]))
    idempotent = is_idempotent(cell)
    intervals: list[Interval] = []
    for line in dropped:
        key = _batch_key(line)
        if journal and (attempts[key] > 1 or len(appended_at[(key[1], key[2])]) > 1):
            again = len(appended_at[(key[1], key[2])]) > 1
        elif attempts[key] > 1:
            # A broker that recognised the retry answers with the offset of the first append.
            again = len(successes[key]) > 1
        else:
            # The retry came after the wire log had ended, or its records came back in other batches (librdkafka without
            # idempotence puts them back into its queue): nobody could recognise them.
            again = not idempotent
        if again:
            base = int(line["base_offset"])
            intervals.append(
                Interval(
                    kind="duplicated",
                    partition=key[1],
                    from_offset=base,
                    end_offset=base + int(line.get("records", 0)),
                )
            )
    refused = len(_events(cell, "duplicate_sequence"))
    how = f"batches of {len(dropped)} Produce exchange(s) whose response was withheld after the append (wire)"
    how += (
        ", of which the journal shows the same CRC at two offsets, or whose records came back in other batches"
        if journal
        else ", unless the retry was answered with the first offset"
    )
    if refused:
        how += f"; the brokers recognised {refused} repeated sequence(s) and appended none of them"
    return intervals, how


# Order: a batch first sent before another but appended behind it.


def _reordered(cell: Cell) -> tuple[list[Interval], str]:
    wire = _from_first_attempts(_wire(cell))
    if not wire:
        return [], "no Produce request was held up or refused on the wire"
    journal = _appended(cell)
    batches = _batches_of_wire(wire)
    by_correlation = _correlation_grows_with_time(batches.values()) and _appends_follow_correlation(journal)
    _merge_journal(batches, journal, with_unseen=by_correlation)
    removed = _lost(cell)[0]
    groups: dict[tuple[str, int], list[_Batch]] = defaultdict(list)
    for batch in batches.values():
        if batch.base_offset is not None and not _is_removed(batch, removed):
            groups[(batch.client_id, batch.partition)].append(batch)
    intervals: list[Interval] = []
    for group in groups.values():
        group.sort(key=_by_correlation_id if by_correlation else _by_time)
        lowest_later: int | None = None
        for batch in reversed(group):
            base = batch.base_offset
            assert base is not None
            if lowest_later is not None and base > lowest_later:
                intervals.append(
                    Interval(
                        kind="reordered",
                        partition=batch.partition,
                        from_offset=base,
                        end_offset=base + batch.records,
                    )
                )
            lowest_later = base if lowest_later is None else min(lowest_later, base)
    how = (
        f"{len(intervals)} batch(es) whose first attempt preceded that of a batch appended at a lower offset; "
        f"order of first attempts from the wire, offsets from {'the journal' if journal else 'the wire'}"
    )
    return intervals, how


def _from_first_attempts(wire: list[Json]) -> list[Json]:
    """Without batches whose first attempt went unlogged: when that was, and so their order, is unknown."""
    first: dict[tuple[str, int, int], int] = {}
    for line in wire:
        first.setdefault(_batch_key(line), int(line.get("attempt", 1)))
    return [line for line in wire if first[_batch_key(line)] <= 1]


def _is_removed(batch: _Batch, removed: list[Interval]) -> bool:
    """Whether a truncation took the batch away: its offset was given again and says nothing about order."""
    base = batch.base_offset
    assert base is not None
    return any(
        item.partition == batch.partition
        and item.from_offset <= base < item.end_offset
        and (batch.t_us <= item.after_us if item.after_us else batch.t_us < item.before_us)
        for item in removed
    )


def _by_correlation_id(batch: _Batch) -> int:
    return batch.first_correlation_id or 0


def _by_time(batch: _Batch) -> int:
    return batch.first_mono_ns or 0


def _batches_of_wire(wire: list[Json]) -> dict[tuple[str, int, int], _Batch]:
    """`wire` is in order of time, so the first line of a key is its first attempt."""
    batches: dict[tuple[str, int, int], _Batch] = {}
    for line in wire:
        key = _batch_key(line)
        batch = batches.get(key)
        if batch is None:
            correlation = line.get("correlation_id")
            batch = _Batch(
                client_id=key[0],
                partition=key[1],
                records=int(line.get("records", 0)),
                first_mono_ns=int(line.get("mono_ns", 0)),
                first_correlation_id=correlation if isinstance(correlation, int) else None,
                t_us=int(line.get("t_us", 0)),
            )
            batches[key] = batch
        if _succeeded(line):
            base = int(line["base_offset"])
            batch.base_offset = base if batch.base_offset is None else min(batch.base_offset, base)
    return batches


def _correlation_grows_with_time(batches: Iterable[_Batch]) -> bool:
    """Whether a client's correlation ids order its requests; not so if several connections count for themselves."""
    last: dict[tuple[str, int], int] = {}
    for batch in sorted(batches, key=lambda item: item.first_mono_ns or 0):
        if batch.first_correlation_id is None:
            return False
        key = (batch.client_id, batch.partition)
        if batch.first_correlation_id < last.get(key, batch.first_correlation_id):
            return False
        last[key] = batch.first_correlation_id
    return True


def _appends_follow_correlation(journal: list[Json]) -> bool:
    """Whether what a client's batches carried when they were appended grows with time.

    A retry is appended under the correlation id of the retry, so one counter for all connections gives growing ids. A
    counter per connection starts again after a failover or a reconnect, and then orders nothing across the two.
    """
    last: dict[tuple[str, int], int] = {}
    for event in sorted(journal, key=lambda item: int(item.get("t_us", 0))):
        correlation = event.get("correlation_id")
        key = (str(event.get("client_id")), int(event["partition"]))
        if not isinstance(correlation, int) or correlation < last.get(key, correlation):
            return False
        last[key] = correlation
    return True


def _merge_journal(batches: dict[tuple[str, int, int], _Batch], journal: list[Json], *, with_unseen: bool) -> None:
    """The journal knows where each batch was first appended, and batches that passed while no fault was armed."""
    for event in journal:
        key = _batch_key(event)
        base = int(event["base_offset"])
        batch = batches.get(key)
        correlation = event.get("correlation_id")
        if batch is None:
            if not with_unseen or not isinstance(correlation, int):
                continue
            batch = _Batch(
                client_id=key[0],
                partition=key[1],
                records=int(event.get("last_offset", base)) - base + 1,
                first_correlation_id=correlation,
                t_us=int(event.get("t_us", 0)),
            )
            batches[key] = batch
        batch.base_offset = base if batch.base_offset is None else min(batch.base_offset, base)
