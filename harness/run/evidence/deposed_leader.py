"""Records that a replaced leader answered for and then truncated: `truncated` events for engines without a journal.

A leader that is cut off or paused stays alive while its successor writes another history. Its files cannot be read in
time, because it truncates them as soon as it learns of the new epoch. But each answer to a client went through a
proxy that logged it. The present leader tells by OffsetForLeaderEpoch where each epoch begins and ends in its log.
Everything beyond the end of the old epoch for which the deposed leader answered was removed by its truncation.

A probe sees leaders later than they lead, and a busy host makes that late by seconds. So the offsets of the present
leader's log say where a broker's later leadership begins, and not the time at which a probe saw it.
Shown by tests/harness/test_harness_deposed_leader.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from runlog.records.cluster import BrokerEvent, ClusterEvent
from runlog.records.cluster_kinds import ClusterKind, Source
from runlog.records.partition import LeaderSeen, Truncated
from runlog.records.wire import WireExchange, WireOutcome

NEVER_NS = 2**63
EPOCHS_MAX = 10_000  # of a partition in a cell; each takes two questions


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """One leader epoch of a partition, as a probe saw it. Its end is the time when the next one was seen."""

    partition: int
    broker: int
    leader_epoch: int
    ended_us: int
    was_killed: bool = False  # the broker died before that end; its files tell what it had
    restarted_us: int | None = None  # its next process began


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A broker said that it had appended offsets [base_offset, end_offset).

    `answered_ns` is when the proxy passed that on, or knew that it would not: then nobody heard of it, but the offsets
    were given.
    """

    broker: int
    partition: int
    base_offset: int
    end_offset: int
    answered_ns: int
    batch: tuple[str, int] = ("", -1)  # client id and CRC: a batch that was sent again has the same
    is_passed_on: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """What a leader answered for and nobody has: it lies in [from_offset, end_offset). From `until_ns` on its answers
    stand again."""

    from_offset: int
    end_offset: int
    until_ns: int


def ended_leaderships(events: Iterable[ClusterEvent]) -> list[Leadership]:
    """Leaderships that ended. Left out is one whose broker leads on in the very next epoch, by the same process: its
    log goes on, and it removes nothing."""
    seen: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    processes: defaultdict[tuple[ClusterKind, int], list[int]] = defaultdict(list)
    for event in events:
        if isinstance(event, LeaderSeen) and event.leader >= 0:
            changes = seen[event.partition]
            if not changes or changes[-1][2] != event.leader_epoch:  # otherwise only the ISR changed
                changes.append((event.t_us, event.leader, event.leader_epoch))
        elif isinstance(event, BrokerEvent):
            processes[event.kind, event.broker].append(event.t_us)
    found = []
    for partition, changes in seen.items():
        for index, (began_us, broker, epoch) in enumerate(changes):
            later = [change for change in changes[index + 1 :] if change[2] > epoch]
            if not later:
                continue
            ended_us = later[0][0]
            starts = [t for t in processes[ClusterKind.STARTED, broker] if t > began_us]
            if later[0][1:] == (broker, epoch + 1) and not any(t <= ended_us for t in starts):
                continue
            found.append(
                Leadership(
                    partition=partition,
                    broker=broker,
                    leader_epoch=epoch,
                    ended_us=ended_us,
                    was_killed=any(began_us <= t <= ended_us for t in processes[ClusterKind.KILLED, broker]),
                    restarted_us=min(starts, default=None),
                )
            )
    return found


def answers_of(exchanges: Iterable[WireExchange], topic: str) -> list[Answer]:
    """The successful Produce answers of a wire log for this topic, in the order in which they were passed on or
    withheld."""
    found = [
        Answer(
            broker=int(exchange.proxy.rpartition("-")[2]),
            partition=exchange.partition,
            base_offset=exchange.base_offset,
            end_offset=exchange.base_offset + exchange.records,
            answered_ns=exchange.answered_ns,
            batch=(exchange.client_id, exchange.crc),
            is_passed_on=exchange.outcome is WireOutcome.DELIVERED,
        )
        for exchange in exchanges
        if exchange.topic == topic
        and exchange.outcome in (WireOutcome.DELIVERED, WireOutcome.DROPPED, WireOutcome.REPLACED)
        and exchange.error_code == 0
        and exchange.answered_ns is not None
        and exchange.base_offset >= 0
    ]
    return sorted(found, key=lambda answer: answer.answered_ns)


def answered_beyond(
    leadership: Leadership,
    end_offset: int,
    answers: Sequence[Answer],
    *,
    ended_ns: int,
    restarted_ns: int = NEVER_NS,
    leads_again_at: int | None = None,
) -> Gone | None:
    """What it answered for beyond `end_offset`, before its next process began or it led again. None: nothing.

    `leads_again_at`: the offset at which the broker's next leadership begins in the present leader's log. None if that
    log has nothing of such a leadership."""
    beyond = [
        answer
        for answer in answers
        if answer.partition == leadership.partition
        and answer.broker == leadership.broker
        and answer.end_offset > end_offset
    ]
    until_ns = restarted_ns
    if leads_again_at is not None:
        until_ns = min(until_ns, _again_from_ns(beyond, leads_again_at, ended_ns))
    gone = [answer for answer in beyond if answer.is_passed_on and answer.answered_ns < until_ns]
    if not gone:
        return None
    return Gone(
        from_offset=max(end_offset, min(answer.base_offset for answer in gone)),
        end_offset=max(answer.end_offset for answer in gone),
        until_ns=until_ns,
    )


def _again_from_ns(answers: Sequence[Answer], start_offset: int, ended_ns: int) -> int:
    """When a broker gave its first answer as leader again, if this leadership begins at `start_offset` in the log.

    A deposed leader does not know that it was replaced. Its answers may reach that offset too, and they come first.
    So the last batch that begins there is that of the new leadership, and it counts from its first answer.
    """
    first_ns: dict[tuple[str, int], int] = {}
    for answer in answers:
        if answer.base_offset == start_offset:
            first_ns.setdefault(answer.batch, answer.answered_ns)
    if not first_ns:  # The first answer of the new leadership did not come through.
        return min(
            (a.answered_ns for a in answers if a.base_offset >= start_offset and a.answered_ns >= ended_ns),
            default=NEVER_NS,
        )
    again_ns = max(first_ns.values())
    # Answers on several connections may overtake one another. What lies beyond a gap in all that was answered before
    # follows a batch of the new leadership.
    reached = 0
    for answer in sorted((a for a in answers if a.answered_ns < again_ns), key=lambda a: a.base_offset):
        if answer.base_offset > reached and answer.base_offset > start_offset:
            again_ns = min(again_ns, answer.answered_ns)
        reached = max(reached, answer.end_offset)
    return again_ns


class PresentLogs:
    """Where epochs begin and end in the logs of the present leaders. Asks each question once.

    `ask(partition, epoch)` answers with (the largest epoch <= the asked one that the leader has, the end of it)."""

    def __init__(self, ask: Callable[[int, int], tuple[int, int] | None]) -> None:
        self._ask = ask
        self._told: dict[tuple[int, int], tuple[int, int] | None] = {}

    def end_of(self, partition: int, epoch: int) -> tuple[int, int] | None:
        key = partition, epoch
        if key not in self._told:
            self._told[key] = self._ask(partition, epoch)
        return self._told[key]

    def start_of(self, partition: int, epoch: int) -> int | None:
        if epoch <= 0:
            return 0
        told = self.end_of(partition, epoch - 1)
        return None if told is None else max(0, told[1])

    def epochs(self, partition: int, first: int, last: int) -> list[tuple[int, int, int]] | str:
        """(epoch, start, end) of those from `first` to `last` of which something stands, in order; in words, why that
        is not known. It asks for these alone, whatever numbers lie between them."""
        found: list[tuple[int, int, int]] = []
        asked = last
        while asked >= first:
            told, start = self.end_of(partition, asked), None
            if told is not None and first <= told[0] <= asked:
                start = self.start_of(partition, told[0])
            if told is None or (start is None and told[0] >= first):
                return f"no leader told where epoch {asked} begins and ends"
            if start is None:  # Nothing younger than `first` stands.
                break
            if told[1] > start:
                found.append((told[0], start, told[1]))
            if len(found) > EPOCHS_MAX:
                return f"more than {EPOCHS_MAX} leader epochs stand"
            asked = told[0] - 1
        return found[::-1]


def deposed_events(
    *,
    topic: str,
    events: Iterable[ClusterEvent],
    answers: Sequence[Answer],
    epoch_end_offset: Callable[[int, int], tuple[int, int] | None],
    to_ns: Callable[[int], int],
    to_us: Callable[[int], int],
    t_us: int,
) -> tuple[list[Truncated], list[str]]:
    """Lines for cluster.jsonl, and problems: questions without an answer. `epoch_end_offset(partition, epoch)` asks the
    present leader."""
    events = list(events)
    leaders = {(event.partition, event.leader_epoch): event.leader for event in events if isinstance(event, LeaderSeen)}
    dumped = [event for event in events if isinstance(event, Truncated) and event.source is Source.LOG_DUMP]
    logs = PresentLogs(epoch_end_offset)
    found: list[Truncated] = []
    problems: list[str] = []
    for leadership in ended_leaderships(events):
        where = _gone_from(leadership, logs, leaders, answers)
        again = None if isinstance(where, str) else _leads_again_at(leadership, logs, leaders, answers)
        if isinstance(where, str) or isinstance(again, str):
            problems.append(f"{topic}-{leadership.partition}: {where if isinstance(where, str) else again}")
            continue
        restarted_us = leadership.restarted_us
        gone = answered_beyond(
            leadership,
            where,
            answers,
            ended_ns=to_ns(leadership.ended_us),
            restarted_ns=NEVER_NS if restarted_us is None else to_ns(restarted_us),
            leads_again_at=again,
        )
        if gone is None or any(_has_all(event, leadership, gone) for event in dumped):
            continue
        found.append(
            Truncated(
                t_us=t_us,
                broker=leadership.broker,
                source=Source.WIRE,
                topic=topic,
                partition=leadership.partition,
                leader_epoch=leadership.leader_epoch,
                from_offset=gone.end_offset,
                to_offset=gone.from_offset,
                until_us=None if gone.until_ns == NEVER_NS else to_us(gone.until_ns),
            )
        )
    return found, problems


def _gone_from(
    leadership: Leadership, logs: PresentLogs, leaders: Mapping[tuple[int, int], int], answers: Sequence[Answer]
) -> int | str:
    """From which offset on nothing of this leadership is in the present leader's log; in words, why that is not known.

    If that log has no record of its epoch, it has the records of an older epoch in their place, also at offsets that
    the leadership gave. All that its broker answered for from the start of that older epoch on is gone.
    """
    partition, broker, epoch = leadership.partition, leadership.broker, leadership.leader_epoch
    told = logs.end_of(partition, epoch)
    if told is None:
        return f"no leader told where epoch {epoch} ends"
    present, end = told[0], max(0, told[1])
    if present < 0:
        return f"the log that stands knows no epoch up to {epoch}: was the topic created anew?"
    if present == epoch:
        return end
    leader = leaders.get((partition, present))
    if leader == broker:
        return end  # Its own older records stand.
    start = logs.start_of(partition, present)
    if start is None:
        return f"no leader told where epoch {present - 1} ends"
    has_answers = any(
        answer.is_passed_on and answer.partition == partition and answer.broker == broker
        and answer.end_offset > start and answer.base_offset < end
        for answer in answers
    )  # fmt: skip
    if leader is None and has_answers:
        return f"no probe saw who led epoch {present}, so what broker {broker} answered there may stand or not"
    return end if leader is None else start


def _leads_again_at(
    leadership: Leadership, logs: PresentLogs, leaders: Mapping[tuple[int, int], int], answers: Sequence[Answer]
) -> int | str | None:
    """Where its broker's next leadership begins in the present leader's log. None: nowhere. In words, why that is not
    known: it may have led in an epoch that no probe saw."""
    partition, broker = leadership.partition, leadership.broker
    last = max((epoch for place, epoch in leaders if place == partition), default=leadership.leader_epoch)
    stands = logs.epochs(partition, leadership.leader_epoch + 1, last)
    if isinstance(stands, str):
        return stands
    for epoch, start, end in stands:
        leader = leaders.get((partition, epoch))
        if leader == broker:
            return start
        has_answers = any(
            answer.is_passed_on and answer.partition == partition and answer.broker == broker
            and answer.base_offset < end and answer.end_offset > start
            for answer in answers
        )  # fmt: skip
        if leader is None and has_answers:
            return f"no probe saw who led epoch {epoch}, so what broker {broker} answered there may stand or not"
    return None


def _has_all(dumped: Truncated, leadership: Leadership, gone: Gone) -> bool:
    """Whether the files of the broker, which were read when it was dead, have told the same already."""
    return (
        dumped.broker == leadership.broker
        and dumped.partition == leadership.partition
        and dumped.leader_epoch == leadership.leader_epoch
        and dumped.to_offset <= gone.from_offset
        and dumped.from_offset >= gone.end_offset
    )
