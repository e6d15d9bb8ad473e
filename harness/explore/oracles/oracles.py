"""What in a history cannot be right. Each oracle is a claim about any client, whatever its settings; what depends on a
setting or on the disturbance is lawful as soon as either permits it.

No oracle looks at how often something happens or how fast: what a busy host can cause is the business of the search,
which repeats a suspicion beside its control. The records of the log are the measure, never another client. Pure. Shown
by tests/harness/test_harness_explore_oracles.py, with histories in which each kind is planted.
"""

from __future__ import annotations

import signal
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from broker.door.protocol import ErrorCode
from chaos.lawful_answers import ANSWERS, Reaction
from harness.explore.oracles.consumer_positions import Positions
from harness.explore.oracles.consumer_positions import Repetition as RepeatedDelivery
from harness.explore.trial.history import (
    Busy,
    Delivered,
    Ended,
    Fate,
    FlushedEarly,
    History,
    Outcome,
    Overdue,
    Problem,
    Sent,
    Stuck,
    Told,
    TransactionEnd,
    as_met,
)
from harness.explore.trial.model import Disturbance, Do, How, Role, Trial
from runlog.records.exchange import ExchangeOutcome

_EXAMPLES: Final = 3
_REQUEST_TIMEOUT_MS: Final = 30_000  # Kafka's default
_DELIVERY_TIMEOUT_MS: Final = 120_000  # likewise
_STARVED_US: Final = 3_000_000
_LATE_SHARE: Final = 0.5  # It is a share of a request's time-out. The client's own waiting has the rest.
_REFUSED_FROM: Final = 3  # transactions: the one that was disturbed may be among them
_ANEW_US: Final = 15_000_000
_GENERATION_FROM: Final = 3  # the version of TxnOffsetCommit
_TOPIC_LIMIT: Final = "max.message.bytes"  # It limits a batch, and not every library cuts one in two.
_TRIES_OF_ALL: Final = 2  # that may fail in each library, which then tries once more
_BY_ITSELF: Final = -1  # the code of a library that has failed without a broker
# A batch with one record has at most this: its header, the record's own fields and headers.
_BATCH_OVERHEAD: Final = 200


class Kind(StrEnum):
    """What was seen, the worst first."""

    LOST = "acknowledged and lost"
    NOT_COPIED = "committed and not copied"
    TORN = "torn transaction"
    ABORTED_VISIBLE = "aborted, and visible"
    SKIPPED = "skipped by the consumer"
    COPIED_TWICE = "copied twice"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    WRONG_PLACE = "in another topic or partition"
    WRONG_CONTENT = "with other contents"
    DELIVERED_AGAIN = "delivered again"
    CRASHED = "the client died"
    HUNG = "a call outlives its time"
    STUCK = "no progress after healing"
    GAVE_UP = "gave up on what passes by itself"
    FLUSHED_EARLY = "a flush ends too early"
    BUSY = "uses a processor for nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """`what` is one sentence with the first examples. `at_us` of the first event that shows it, None if none does."""

    kind: Kind
    what: str
    count: int
    at_us: int | None = None


def suspicions(trial: Trial, history: History) -> list[Suspicion]:
    """All kinds that the history shows, the worst first; each kind once."""
    if history.problem:
        return []
    trial = _in_force(as_met(trial, history), history)
    # What a copier has written is in another topic than what it has read.
    written = replace(history, log=history.copies) if trial.program.role is Role.COPIER else history
    found = [
        *_producer(trial, written),
        *_transactions(trial, written),
        *_consumer(history, begins_at_end=trial.program.begins_at_end),
        *_copies(history),
        *_life(trial, history),
    ]
    return sorted(found, key=lambda suspicion: list(Kind).index(suspicion.kind))


def _in_force(trial: Trial, history: History) -> Trial:
    """The trial with the settings that its client has: who has no delivery.timeout.ms has another time for a record."""
    properties = {**trial.program.properties, **history.effective}
    return replace(trial, program=replace(trial.program, properties=properties))


def _some(parts: list[str]) -> str:
    return ", ".join(parts[:_EXAMPLES]) + (f" and {len(parts) - _EXAMPLES} more" if len(parts) > _EXAMPLES else "")


def _at(partition: int, offset: int) -> str:
    return f"offset {offset} of partition {partition}"


def _is_on(trial: Trial, name: str, *, default: bool) -> bool:
    value = trial.program.properties.get(name)
    return default if value is None else value.lower() == "true"


# --- producers --------------------------------------------------------------------------------------------------------


def _producer(trial: Trial, history: History) -> Iterator[Suspicion]:
    sent = {one.seq: one for one in history.happened if isinstance(one, Sent)}
    outcomes = [one for one in history.happened if isinstance(one, Outcome)]
    places: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for record in history.log:
        if record.value is not None:
            places[record.value].append((record.partition, record.offset))
    if is_loss_unlawful(trial):
        yield from _lost(sent, outcomes, places, history)
    yield from _misplaced(sent, outcomes, places, history)
    if _forbids_duplicates(trial, history):
        twice = [one for one in sent.values() if len(places[one.value]) > 1]
        if twice:
            parts = [f"record {one.seq} at {' and '.join(_at(*place) for place in places[one.value])}" for one in twice]
            yield Suspicion(kind=Kind.DUPLICATED, what=f"in the log twice: {_some(parts)}", count=len(twice))
    if _forbids_reordering(trial):
        yield from _reordered(sent, places)


def _lost(
    sent: dict[int, Sent], outcomes: list[Outcome], places: dict[bytes, list[tuple[int, int]]], history: History
) -> Iterator[Suspicion]:
    """A record of a transaction is judged by the transaction's end. What was sent before the topic became another one
    may be gone with the old one."""
    gone = [
        one
        for one in outcomes
        if one.fate is Fate.ACKNOWLEDGED
        and not places[sent[one.seq].value]
        and not sent[one.seq].transaction
        and not (history.recreated_us is not None and sent[one.seq].at_us <= history.recreated_us)
    ]
    if gone:
        parts = [f"record {one.seq}, acknowledged at {_at(one.partition, one.offset)}" for one in gone]
        yield Suspicion(
            kind=Kind.LOST,
            what=f"not in the log: {_some(parts)}",
            count=len(gone),
            at_us=min(one.at_us for one in gone),
        )


def _misplaced(
    sent: dict[int, Sent], outcomes: list[Outcome], places: dict[bytes, list[tuple[int, int]]], history: History
) -> Iterator[Suspicion]:
    wrong = [
        f"record {one.seq} was for partition {one.partition} and is at {_at(*place)}"
        for one in sent.values()
        if one.partition >= 0
        for place in places[one.value]
        if place[0] != one.partition
    ]
    wrong += [f"a record of another topic: {value!r}" for value in history.other_topics]
    if wrong:
        yield Suspicion(kind=Kind.WRONG_PLACE, what=_some(wrong), count=len(wrong))
    if history.recreated_us is not None:
        return  # some offsets are the old topic's
    contents = {(record.partition, record.offset): record.value for record in history.log}
    other = [
        one
        for one in outcomes
        if one.fate is Fate.ACKNOWLEDGED
        and places[sent[one.seq].value]
        and one.offset >= 0
        and contents.get((one.partition, one.offset), sent[one.seq].value) != sent[one.seq].value
    ]
    if other:
        parts = [f"record {one.seq} was acknowledged at {_at(one.partition, one.offset)}" for one in other]
        yield Suspicion(
            kind=Kind.WRONG_CONTENT,
            what=f"the log holds another record there: {_some(parts)}",
            count=len(other),
            at_us=min(one.at_us for one in other),
        )


def is_loss_unlawful(trial: Trial) -> bool:
    """A leader that answers alone (acks=1) may lose what it has acknowledged when another one takes its place."""
    return trial.program.properties.get("acks", "all") in ("all", "-1") or not trial.program.changes


def _forbids_duplicates(trial: Trial, history: History) -> bool:
    """With an idempotent producer always, but for what was under way when a record's time was over. Without one, if
    every request that did not succeed was surely not done: a request whose answer is lost is repeated lawfully, and so
    is one that a leader could not finish."""
    if _is_on(trial, "enable.idempotence", default=False) or trial.program.is_transactional:
        return not _has_begun_anew(trial, history)
    is_certain = not trial.program.changes and all(one.how.is_certain for one in trial.disturbances)
    return is_certain and not _is_any_late(trial, history)


def _has_begun_anew(trial: Trial, history: History) -> bool:
    """Whether an idempotent producer may have taken another epoch (KIP-360): a record of it has expired while answers
    were lost. What it sends again then has another sequence, so that no broker knows whether it has it already. Of two
    disturbances one may lose an answer, and the other one may fail a record long before its time is over."""
    is_expired = any(isinstance(one, Outcome) and one.fate is not Fate.ACKNOWLEDGED for one in history.happened)
    uncertain = [one for one in trial.disturbances if not one.how.is_certain]
    if not uncertain:
        return is_expired and _is_any_late(trial, history)
    return is_expired and (len(trial.disturbances) > 1 or uncertain[0].heal_after_ms >= _delivery_timeout_ms(trial))


def _silent_ms(disturbance: Disturbance) -> int:
    """For so long a request that it meets has no answer, and the connection stays."""
    is_silence = disturbance.how in (How.SILENCE_BEFORE, How.SILENCE_AFTER)
    return disturbance.heal_after_ms if is_silence else disturbance.late_ms


def _delivery_timeout_ms(trial: Trial) -> int:
    return int(trial.program.properties.get("delivery.timeout.ms", _DELIVERY_TIMEOUT_MS))


def _is_any_late(trial: Trial, history: History) -> bool:
    """Whether a client may have taken an answer to Produce for lost, although nothing disturbed it: on a busy host it
    waits longer than the proxy sees."""
    if _is_starved(history):
        return True
    timeout_ms = int(trial.program.properties.get("request.timeout.ms", _REQUEST_TIMEOUT_MS))
    return any(
        each.outcome in (ExchangeOutcome.DROPPED, ExchangeOutcome.UNANSWERED)
        or (each.ended_ns - each.mono_ns) / 1e6 > timeout_ms * _LATE_SHARE
        for each in history.exchanges
        if each.api == "Produce" and each.outcome is not ExchangeOutcome.REFUSED
    )


def _is_starved(history: History) -> bool:
    """Whether the client told of an acknowledgement long after the proxy had passed it on: it was not let run, so its
    own time-outs say nothing."""
    ended_us = sorted(
        each.ended_ns // 1_000
        for each in history.exchanges
        if each.api == "Produce" and each.outcome in (ExchangeOutcome.DELIVERED, ExchangeOutcome.ALTERED)
    )
    for one in history.happened:
        if isinstance(one, Outcome) and one.fate is Fate.ACKNOWLEDGED:
            before = bisect_right(ended_us, one.at_us)
            if before and one.at_us - ended_us[before - 1] > _STARVED_US:
                return True
    return False


def _forbids_reordering(trial: Trial) -> bool:
    """With an idempotent producer, or with one request in flight. Not with several, even where nothing is sent again:
    Kafka's own client keeps the order then, and others promise none between two sends that are under way. A topic that
    is created anew knows no sequences, so the order is not kept across that."""
    if any(move.do is Do.RECREATE for move in trial.program.changes):
        return False
    if trial.program.role is Role.COPIER and trial.program.members > 1:
        return False  # These are several producers.
    if _is_on(trial, "enable.idempotence", default=False) or trial.program.is_transactional:
        return True
    return trial.program.properties.get("max.in.flight.requests.per.connection") == "1"


def _reordered(sent: dict[int, Sent], places: dict[bytes, list[tuple[int, int]]]) -> Iterator[Suspicion]:
    """By the first time that each record stands in a partition. What several callers give at once has no order."""
    of_partition: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for one in sent.values():
        firsts: dict[int, int] = {}
        for partition, offset in places[one.value]:
            firsts[partition] = min(offset, firsts.get(partition, offset))
        for partition, offset in firsts.items():
            of_partition[partition].append((offset, one.seq))
    behind: list[str] = []
    for partition, found in sorted(of_partition.items()):
        latest: Sent | None = None
        latest_of: dict[tuple[int, int], Sent] = {}  # The key: a command and its caller.
        for offset, seq in sorted(found):
            one = sent[seq]
            before = latest_of.get((one.command, one.caller))
            if latest is not None and latest.seq > seq and latest.command != one.command:
                before = latest
            if before is not None and before.seq > seq:
                behind.append(f"record {seq} at {_at(partition, offset)}, behind record {before.seq}")
            latest_of[one.command, one.caller] = one if before is None or before.seq < seq else before
            latest = one if latest is None or latest.seq < seq else latest
    if behind:
        yield Suspicion(kind=Kind.REORDERED, what=_some(behind), count=len(behind))


# --- transactions -----------------------------------------------------------------------------------------------------


def _transactions(trial: Trial, history: History) -> Iterator[Suspicion]:
    """All or nothing, whatever the client was told; and what it was told is true. What was given up after a commit
    without a clear answer is not there only if that commit was surely not done."""
    is_undone = not trial.program.changes and all(one.how.is_undone for one in trial.disturbances)
    sent: dict[int, list[Sent]] = defaultdict(list)
    for one in history.happened:
        if isinstance(one, Sent) and one.transaction:
            sent[one.transaction].append(one)
    if not sent:
        return
    failed = {one.seq for one in history.happened if isinstance(one, Outcome) and one.fate is not Fate.ACKNOWLEDGED}
    committed = {record.value for record in history.log if not record.is_aborted}
    ends = {one.transaction: one for one in history.happened if isinstance(one, TransactionEnd)}
    torn: list[str] = []
    lost: list[str] = []
    visible: list[str] = []
    for number, records in sorted(sent.items()):
        there = [one for one in records if one.value in committed]
        due = [one for one in records if one.seq not in failed]
        missing = [one for one in due if one.value not in committed]
        end = ends.get(number)
        is_done = end is not None and end.told is Told.DONE
        if is_done and end is not None and not end.is_commit and (is_undone or not end.is_after_commit):
            visible += [f"record {one.seq} of transaction {number}" for one in there]
        elif there and missing:
            torn.append(f"transaction {number}: {len(there)} of {len(due)} records are committed")
        elif is_done and end is not None and end.is_commit and missing:
            lost.append(f"transaction {number} was committed, and its {len(missing)} records are not in the log")
    for kind, parts in ((Kind.TORN, torn), (Kind.LOST, lost), (Kind.ABORTED_VISIBLE, visible)):
        if parts:
            yield Suspicion(kind=kind, what=_some(parts), count=len(parts))


# --- copies in transactions -------------------------------------------------------------------------------------------


def _copies(history: History) -> Iterator[Suspicion]:
    """A record and its copy are one: where the group's offset is behind the record, exactly one copy of it is visible.
    So a transaction that was given up leaves no offset, and one that was committed leaves both. An answer that was lost
    changes nothing, because the application asks its next client where the group stands.

    A copy that was told as not acknowledged, in a transaction that was committed, is the application's to send again:
    some libraries commit all the same, and the producer's rule (`_transactions`) says so too.

    More than one copy is wrong whatever the offset is. Only copies of different members are not, where the client does
    not tell the generation of its group with the offsets of a transaction: nothing keeps a member that has lost its
    partitions from committing them then (KIP-447). No copy is only wrong before the offset: what is behind it is still
    to be copied, and who never does so makes no progress, which is another kind."""
    source_of = {one.value: one.source for one in history.happened if isinstance(one, Sent) and one.source is not None}
    unsent = {one.seq for one in history.happened if isinstance(one, Outcome) and one.fate is not Fate.ACKNOWLEDGED}
    ends = [one for one in history.happened if isinstance(one, TransactionEnd)]
    done = {one.transaction for one in ends if one.is_commit and one.told is Told.DONE}
    was_told = {
        one.source
        for one in history.happened
        if isinstance(one, Sent) and one.seq in unsent and one.transaction in done
    }
    member_of = {one.value: one.member for one in history.happened if isinstance(one, Sent)}
    copies: dict[tuple[int, int], list[str]] = defaultdict(list)
    members: dict[tuple[int, int], set[int]] = defaultdict(set)
    for record in history.copies:
        source = None if record.value is None else source_of.get(record.value)
        if source is not None and record.value is not None and not record.is_aborted:
            copies[source].append(_at(record.partition, record.offset))
            members[source].add(member_of[record.value])
    missing = [
        f"the record at {_at(record.partition, record.offset)}, and the group's offset is {end}"
        for record in history.log
        if not record.is_aborted
        and not record.is_deleted
        and record.offset < (end := history.committed.get(record.partition, 0))
        and not copies[record.partition, record.offset]
        and (record.partition, record.offset) not in was_told
    ]
    if missing:
        yield Suspicion(kind=Kind.NOT_COPIED, what=f"no copy is there: {_some(missing)}", count=len(missing))
    twice = [
        f"the record at {_at(*source)}: copies at {' and '.join(places)}"
        for source, places in sorted(copies.items())
        if len(places) > 1 and (len(members[source]) == 1 or _tells_generation(history))
    ]
    if twice:
        yield Suspicion(kind=Kind.COPIED_TWICE, what=_some(twice), count=len(twice))


def _tells_generation(history: History) -> bool:
    versions = [each.api_version for each in history.exchanges if each.api == "TxnOffsetCommit"]
    return not versions or min(versions) >= _GENERATION_FROM


# --- consumers --------------------------------------------------------------------------------------------------------


def _consumer(history: History, *, begins_at_end: bool) -> Iterator[Suspicion]:
    delivered = [one for one in history.happened if isinstance(one, Delivered)]
    visible: dict[int, list[int]] = defaultdict(list)
    for record in history.log:
        if not record.is_deleted and (history.is_read_uncommitted or not record.is_aborted):
            visible[record.partition].append(record.offset)
    yield from _contents(delivered, history)
    positions = Positions(visible, is_auto_commit=history.is_auto_commit, begins_at_end=begins_at_end)
    positions.follow(history.happened)
    # A record that is handed out later all the same was late and not skipped: a rebalance may bring it back.
    later: dict[tuple[int, int], int] = {(one.partition, one.offset): one.at_us for one in delivered}
    skips = [
        (skip, offset)
        for skip in positions.skips
        for offset in skip.offsets
        if later.get((skip.partition, offset), -1) < skip.at_us
    ]
    if skips:
        parts = [f"{_at(skip.partition, offset)}, before offset {skip.then}" for skip, offset in skips]
        yield Suspicion(
            kind=Kind.SKIPPED,
            what=f"never handed out: {_some(parts)}",
            count=len(skips),
            at_us=min(skip.at_us for skip, _ in skips),
        )
    if positions.repetitions:
        yield _repeated(positions.repetitions)


def _repeated(repetitions: list[RepeatedDelivery]) -> Suspicion:
    parts = [
        f"{_at(one.partition, one.offset)}, although "
        + (f"offset {one.low} was committed" if one.is_after_assignment else f"the position was {one.low}")
        for one in repetitions
    ]
    return Suspicion(
        kind=Kind.DELIVERED_AGAIN,
        what=_some(parts),
        count=len(repetitions),
        at_us=min(one.at_us for one in repetitions),
    )


def _contents(delivered: list[Delivered], history: History) -> Iterator[Suspicion]:
    contents = {(record.partition, record.offset): record for record in history.log}
    aborted: list[str] = []
    wrong: list[str] = []
    for one in delivered:
        there = contents.get((one.partition, one.offset))
        if there is None or there.value != one.value:
            wrong.append(f"the record at {_at(one.partition, one.offset)} is not what the log holds")
        elif there.is_aborted and not history.is_read_uncommitted:
            aborted.append(f"the record at {_at(one.partition, one.offset)}")
    if aborted:
        yield Suspicion(kind=Kind.ABORTED_VISIBLE, what=f"handed out: {_some(aborted)}", count=len(aborted))
    if wrong:
        yield Suspicion(kind=Kind.WRONG_CONTENT, what=_some(wrong), count=len(wrong))


# --- its life ---------------------------------------------------------------------------------------------------------


def _life(trial: Trial, history: History) -> Iterator[Suspicion]:
    ended = [one for one in history.happened if isinstance(one, Ended)]
    fatal = next((one for one in history.happened if isinstance(one, Problem) and one.is_fatal), None)
    is_excused = may_stop(trial, history) or may_lose_patience(trial)
    overdue = [one for one in history.happened if isinstance(one, Overdue)]
    # Who does not answer is killed by us at the end: that is no death of its own.
    crashed = [one for one in ended if (one.signal or fatal is None) and not (overdue and one.signal == signal.SIGKILL)]
    if crashed:
        first = crashed[0]
        how = f"signal {first.signal}" if first.signal else f"exit code {first.code}"
        words = f": {first.last_words}" if first.last_words else ""
        yield Suspicion(kind=Kind.CRASHED, what=f"{how}{words}", count=len(crashed), at_us=first.at_us)
    if overdue:
        parts = [f"{one.command} has no answer after {one.allowed_ms} ms" for one in overdue]
        yield Suspicion(kind=Kind.HUNG, what=_some(parts), count=len(overdue), at_us=overdue[0].at_us)
    if early := [one for one in history.happened if isinstance(one, FlushedEarly)]:
        yield Suspicion(kind=Kind.FLUSHED_EARLY, what=_some([one.what for one in early]), count=len(early))
    # What it was told before is no excuse: it has told of no error since, and nobody waits for anything.
    if busy := [one for one in history.happened if isinstance(one, Busy)]:
        parts = [f"{one.share:.0%} of one for {one.looked_ms} ms, {one.when}" for one in busy]
        yield Suspicion(kind=Kind.BUSY, what=_some(parts), count=len(busy), at_us=busy[0].at_us)
    stuck = [one for one in history.happened if isinstance(one, Stuck)]
    told = [one for one in history.happened if isinstance(one, Problem)]
    # What a lost broker had is elsewhere a moment later, and so is a topic that is created anew under its name: to wait
    # for that broker, or for the topic of before, is no progress, whatever is told. Nor
    # is it if a reader stands still after all brokers are back: libraries tell that none is there, and go on.
    of_readers: tuple[Do, ...] = ()
    if trial.program.role is Role.CONSUMER:
        of_readers = (Do.CUT_ALL, Do.FREEZE_ALL, Do.DIE_ALL, Do.HANG, Do.ISOLATE)
    passing = (Do.LOSE, Do.DIE, Do.LAG, Do.MOVE_LEADER, Do.RECREATE, *of_readers)
    is_there = trial.disturbance is None and all(move.do in passing for move in trial.program.changes)
    if stuck and not crashed and not overdue and (is_there or not (is_excused and told)):
        first_stuck = stuck[0]
        yield Suspicion(
            kind=Kind.STUCK,
            what=f"{first_stuck.missing} of {first_stuck.expected} {first_stuck.what} after {first_stuck.waited_ms} ms",
            count=len(stuck),
            at_us=first_stuck.at_us,
        )
    elif not stuck and (refused := _refused_for_good(trial, history)):
        parts = [f"transaction {number}" for number in refused]
        yield Suspicion(kind=Kind.STUCK, what=f"no record is accepted of {_some(parts)}", count=len(refused))
    elif not stuck and (late := _expired_in_a_new_topic(trial, history)):
        what = f"{len(late)} records expired, although the topic had been created anew {_ANEW_US // 1_000_000} s before"
        yield Suspicion(kind=Kind.STUCK, what=what, count=len(late), at_us=late[0].at_us)
    if not is_excused:
        yield from _gave_up(trial, history, fatal)
    elif fatal is not None and must_go_on(trial):
        yield _ended_for_good(fatal)


def _refused_for_good(trial: Trial, history: History) -> list[int]:
    """The last transactions that were to be committed, if not one of their records was acknowledged. One answer ends
    one transaction: our application gives it up, and takes a new producer if it cannot. So those after it are
    accepted, whatever the answer was. A second answer may end one more."""
    is_brief = bool(trial.disturbances) and all(each.count == 1 for each in trial.disturbances)
    if not is_brief or trial.program.role is not Role.PRODUCER:
        return []
    sent = [one for one in history.happened if isinstance(one, Sent) and one.transaction]
    acknowledged = {one.seq for one in history.happened if isinstance(one, Outcome) and one.fate is Fate.ACKNOWLEDGED}
    accepted = {one.transaction for one in sent if one.seq in acknowledged}
    to_commit = {one.transaction for one in history.happened if isinstance(one, TransactionEnd) and one.is_commit}
    refused = []
    for number in sorted(to_commit & {one.transaction for one in sent}, reverse=True):
        if number in accepted:
            break
        refused.append(number)
    least = _REFUSED_FROM + (trial.then is not None)
    return refused[::-1] if len(refused) >= least and not _is_starved(history) else []


def _expired_in_a_new_topic(trial: Trial, history: History) -> list[Outcome]:
    """A client may fail what it has when its topic is gone. When another one has that name it has to find it, although
    the new one has another id and lower leader epochs."""
    away = [move.do for move in trial.program.changes if move.do not in (Do.MOVE_LEADER, Do.RECREATE)]
    if history.recreated_us is None or trial.disturbance is not None or away or _is_starved(history):
        return []
    return [
        one
        for one in history.happened
        if isinstance(one, Outcome)
        and one.fate is not Fate.ACKNOWLEDGED
        and one.at_us - history.recreated_us > _ANEW_US
    ]


def may_lose_patience(trial: Trial) -> bool:
    """Whether the cluster does what a client may give up for: a broker that cannot be reached for seconds, or a topic
    that does not exist for a moment. What moves or grows is there all the time."""
    away = (Do.CUT, Do.FREEZE, Do.CUT_ALL, Do.FREEZE_ALL, Do.LOSE, Do.RECREATE, Do.DIE, Do.DIE_ALL, Do.HANG, Do.ISOLATE)
    return any(move.do in away for move in trial.program.changes)


def may_stop(trial: Trial, history: History) -> bool:
    """Whether an error that the application sees is right, by one of the disturbances, or because they add up. Not
    after one answer that passes by itself, nor after a connection that broke once or an answer that came late. Nor
    after one and then another one: each library tries a request three times at the least. But a disturbance meets a
    request at each broker, so two of them may meet more, and some libraries count."""
    if trial.then is not None and history.disturbed + history.disturbed_then > _TRIES_OF_ALL:
        return True
    return any(map(may_stop_after, trial.disturbances))


def may_stop_after(disturbance: Disturbance) -> bool:
    if disturbance.count != 1:
        return True  # a client may lose patience
    if not disturbance.how.is_error:
        return False
    return not any(
        answer.api == disturbance.api
        and answer.code == disturbance.code
        and answer.is_after_work == (disturbance.how is How.ERROR_AFTER)
        and answer.reaction in (Reaction.RETRY, Reaction.REJOIN)
        for answer in ANSWERS
    )


def must_go_on(trial: Trial) -> bool:
    """Whether a producer must not end for good, although it may fail records: what it met passes by itself, and did so
    within the time that its records have. In transactions another producer may have taken its place."""
    found, program = trial.disturbances, trial.program
    if not found or program.role is not Role.PRODUCER or program.is_transactional or may_lose_patience(trial):
        return False
    lasts_ms = sum(one.heal_after_ms for one in found)
    return lasts_ms < _delivery_timeout_ms(trial) and not any(may_stop_after(replace(one, count=1)) for one in found)


def _is_told_of_no_topic(trial: Trial) -> bool:
    """Whether a broker has said that the topic is not there, as one does that has just started. A client may believe it
    and fail the records that it has, as after the topic was deleted. It may lose nothing, and must go on afterwards."""
    return any(map(says_no_topic, trial.disturbances))


def says_no_topic(disturbance: Disturbance) -> bool:
    is_of_topic = disturbance.how.is_error and disturbance.code == ErrorCode.unknown_topic_or_partition
    return is_of_topic and disturbance.api == "Metadata"


def _ended_for_good(fatal: Problem) -> Suspicion:
    return Suspicion(kind=Kind.GAVE_UP, what=f"fatal: {fatal.reason}", count=1, at_us=fatal.at_us)


def _gave_up(trial: Trial, history: History, fatal: Problem | None) -> Iterator[Suspicion]:
    """Records that were not sent, and a client that ends. A commit that fails is the application's to repeat. Kafka's
    `batch.size` lets a larger record have a batch of its own. In some libraries it is a limit, and they refuse that
    record themselves. Where a topic has a limit of its own, some send
    the same batch again until its time is over. Who waits for room beside other callers may wait longer than
    its library lets it wait. What expires in a client that is not let run is the host's doing."""
    if fatal is not None:
        yield _ended_for_good(fatal)
        return
    if _TOPIC_LIMIT in trial.program.topic or _is_told_of_no_topic(trial):
        return
    # Behind a record that has expired, some libraries fail those of its partition that wait with it.
    if any(_silent_ms(one) >= _delivery_timeout_ms(trial) for one in trial.disturbances):
        return
    aborting = {one.transaction for one in history.happened if isinstance(one, TransactionEnd) and not one.is_commit}
    sent = {one.seq: one for one in history.happened if isinstance(one, Sent)}
    at_once = {one.command for one in sent.values() if one.caller > 0}
    batch_size = int(trial.program.properties.get("batch.size", "16384"))
    expires_us = _delivery_timeout_ms(trial) * 1_000
    # A record with so little time expires before a busy host can be told from a slow client, and one late answer lasts
    # longer.
    is_starved = expires_us <= _STARVED_US or _is_starved(history)
    not_sent = [
        one
        for one in history.happened
        if isinstance(one, Outcome)
        and one.fate is not Fate.ACKNOWLEDGED
        and sent[one.seq].transaction not in aborting
        and not (one.fate is Fate.FAILED and one.code == _BY_ITSELF and sent[one.seq].command in at_once)
        and not (one.code == ErrorCode.message_too_large and len(sent[one.seq].value) + _BATCH_OVERHEAD > batch_size)
        and not (is_starved and one.at_us - sent[one.seq].at_us >= expires_us)
    ]
    if not_sent:
        reasons = Counter(one.reason for one in not_sent).most_common(2)
        parts = [f"{count} records: {reason or 'no reason given'}" for reason, count in reasons]
        yield Suspicion(kind=Kind.GAVE_UP, what=_some(parts), count=len(not_sent), at_us=not_sent[0].at_us)
