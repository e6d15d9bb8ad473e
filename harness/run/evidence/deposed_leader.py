"""Records that a replaced leader answered for and then truncated: `truncated` events for engines without a journal.

A leader that is cut off or paused stays alive while its successor writes another history. Its files cannot be read in
time, because it truncates them as soon as it learns of the new epoch. But each answer to a client went through a
proxy that logged it. The present leader tells by OffsetForLeaderEpoch where the old epoch ends. Everything beyond that
offset for which the deposed leader answered was removed by its truncation. Shown by
tests/harness/test_harness_deposed_leader.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from runlog.records.cluster import BrokerEvent, ClusterEvent
from runlog.records.cluster_kinds import ClusterKind, Source
from runlog.records.partition import LeaderSeen, Truncated
from runlog.records.wire import WireExchange, WireOutcome

NEVER_NS = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """One leader epoch of a partition, as a probe saw it. Its end is the time when the next one was seen."""

    partition: int
    broker: int
    leader_epoch: int
    ended_us: int
    leads_again: bool  # later in this cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A broker said that it had appended offsets [base_offset, end_offset).

    `answered_ns` is when the proxy passed that on.
    """

    broker: int
    partition: int
    base_offset: int
    end_offset: int
    answered_ns: int


def ended_leaderships(events: Iterable[ClusterEvent]) -> list[Leadership]:
    """Leaderships that ended while their broker was alive. For a killed broker the harness reads the files instead."""
    seen: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    killed: defaultdict[int, list[int]] = defaultdict(list)
    for event in events:
        if isinstance(event, LeaderSeen) and event.leader >= 0:
            changes = seen[event.partition]
            if not changes or changes[-1][2] != event.leader_epoch:  # otherwise only the ISR changed
                changes.append((event.t_us, event.leader, event.leader_epoch))
        elif isinstance(event, BrokerEvent) and event.kind is ClusterKind.KILLED:
            killed[event.broker].append(event.t_us)
    found = []
    for partition, changes in seen.items():
        for index, (began_us, broker, epoch) in enumerate(changes):
            following = next(((t, b) for t, b, e in changes[index + 1 :] if e > epoch), None)
            if following is None or any(t >= began_us for t in killed[broker]):
                continue
            again = any(b == broker and e > epoch for _, b, e in changes[index + 1 :])
            found.append(
                Leadership(
                    partition=partition, broker=broker, leader_epoch=epoch, ended_us=following[0], leads_again=again
                )
            )
    return found


def answers_of(exchanges: Iterable[WireExchange], topic: str) -> list[Answer]:
    """The successful Produce answers of a wire log for this topic, in the order in which they were passed on."""
    found = [
        Answer(
            broker=int(exchange.proxy.rpartition("-")[2]),
            partition=exchange.partition,
            base_offset=exchange.base_offset,
            end_offset=exchange.base_offset + exchange.records,
            answered_ns=exchange.answered_ns,
        )
        for exchange in exchanges
        if exchange.topic == topic
        and exchange.outcome is WireOutcome.DELIVERED
        and exchange.error_code == 0
        and exchange.answered_ns is not None
        and exchange.base_offset >= 0
    ]
    return sorted(found, key=lambda answer: answer.answered_ns)


def answered_beyond(
    leadership: Leadership, end_offset: int, answers: Sequence[Answer], ended_ns: int
) -> tuple[int, int] | None:
    """(the end of the offsets that it answered for, the time of its next leadership). None if nothing is gone.

    If it leads again later, its answers from then on are not those of a deposed leader. They begin where the log of its
    successor ends.
    """
    highest, others_end = end_offset, end_offset
    for answer in answers:
        if answer.partition != leadership.partition or answer.end_offset <= end_offset:
            continue
        if answer.broker != leadership.broker:
            others_end = max(others_end, answer.end_offset)
        elif leadership.leads_again and answer.answered_ns >= ended_ns and answer.base_offset >= others_end:
            return (highest, answer.answered_ns) if highest > end_offset else None
        else:
            highest = max(highest, answer.end_offset)
    return (highest, NEVER_NS) if highest > end_offset else None


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
    found: list[Truncated] = []
    problems: list[str] = []
    for leadership in ended_leaderships(events):
        told = epoch_end_offset(leadership.partition, leadership.leader_epoch)
        if told is None:
            problems.append(
                f"{topic}-{leadership.partition}: no leader told where epoch {leadership.leader_epoch} ends"
            )
            continue
        beyond = answered_beyond(leadership, told[1], answers, to_ns(leadership.ended_us))
        if beyond is None:
            continue
        found.append(
            Truncated(
                t_us=t_us,
                broker=leadership.broker,
                source=Source.WIRE,
                topic=topic,
                partition=leadership.partition,
                leader_epoch=leadership.leader_epoch,
                from_offset=beyond[0],
                to_offset=told[1],
                until_us=None if beyond[1] == NEVER_NS else to_us(beyond[1]),
            )
        )
    return found, problems
