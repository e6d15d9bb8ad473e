"""A trial with several topics, and one that begins at the end of the log."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from harness.explore.execution.cluster_changes import Changes
from harness.explore.execution.member import Member
from harness.explore.execution.other_writers import Others
from harness.explore.generators.cluster_moves import changed, each_change
from harness.explore.generators.programs import plain
from harness.explore.generators.shrink import is_lawful, smaller
from harness.explore.generators.usage import usage
from harness.explore.oracles.consumer_positions import Positions
from harness.explore.trial.history import Change, Commit, Connected, Delivered, Happening, Outcome, Rebalance, Told
from harness.explore.trial.model import Do, Move, Program, Role, Trial, from_document, to_document
from harness.explore.trial.topics import Topics
from workloads.clients.process.messages import Acknowledged, AcknowledgedRecord, Event, Polled, PolledRecord, Rebalanced
from workloads.clients.process.messages import TopicPartition as Place

TWO = Topics.of_trial("t", 2, 3)
ABILITIES = ("produce", "partition", "subscribe", "assign", "seek", "pause", "commit", "transactions", "send-offsets")


def programs() -> list[Program]:
    made = [*plain(ABILITIES, ["*"]), *usage(ABILITIES, lambda side, name: True, 1)]
    return [program for program in made if program.topics > 1 or program.begins_at_end]


def test_every_partition_has_a_number_of_its_own() -> None:
    places = [TWO.place(number) for number in range(TWO.count)]
    assert places == [("t", 0), ("t", 1), ("t", 2), ("t-2", 0), ("t-2", 1), ("t-2", 2)]
    assert [TWO.number(*place) for place in places] == list(range(6))


def test_partitions_that_are_added_to_the_only_topic_are_numbered_on() -> None:
    assert Topics(("t",), 3).place(7) == ("t", 7)
    assert Topics(("t",), 3).number("t", 7) == 7


def test_what_a_client_tells_is_noted_by_these_numbers() -> None:
    happened: list[Happening] = []
    member = Member(0, happened, {}, topics=TWO, sent_to={1: 1})
    told: list[Event] = [
        Rebalanced(
            event="assigned", at_us=1, partitions=(Place(topic="t", partition=0), Place(topic="t-2", partition=0))
        ),
        Polled(
            event="polled",
            id=1,
            at_us=2,
            records=(PolledRecord(topic="t-2", partition=1, offset=5, value=None, key=None, timestamp_ms=0),),
        ),
        Acknowledged(
            event="acknowledged",
            at_us=3,
            records=tuple(AcknowledgedRecord(seq=seq, sent_us=1, partition=2, offset=0) for seq in (0, 1)),
        ),
    ]
    for event in told:
        member._hear(event, 1, b"")
    assert member.owned == {0, 3}
    assert member.positions == {4: 6}
    assert [one.partition for one in happened if isinstance(one, Delivered)] == [4]
    assert [one.partition for one in happened if isinstance(one, Outcome)] == [2, 5]


class Writer:
    def __init__(self) -> None:
        self.written: list[tuple[str, int]] = []

    def send(self, topic: str, value: bytes, key: bytes | None, partition: int) -> SimpleNamespace:
        self.written.append((topic, partition))
        return SimpleNamespace(get=lambda timeout_s: SimpleNamespace(offset=0))

    def flush(self, timeout_s: float) -> int:
        return 0


def test_others_write_into_all_topics() -> None:
    writer, ends = Writer(), dict.fromkeys(range(6), 0)
    others = Others(SimpleNamespace(), TWO, ends, is_read_uncommitted=False)  # type: ignore[arg-type]
    others._follow(others._send(writer, 6, 0))  # type: ignore[arg-type]
    assert sorted(writer.written) == sorted(TWO.place(number) for number in range(6))
    assert ends == dict.fromkeys(range(6), 1)


def test_a_broker_that_is_lost_leads_no_partition_of_any_topic() -> None:
    leaders = {(topic, partition): 1 + partition for topic in TWO.names for partition in range(3)}
    topics = SimpleNamespace(
        replicas_of=lambda topic: {part: (at,) for (of, part), at in leaders.items() if of == topic},
        set_replicas=lambda topic, wanted: leaders.update({(topic, each): at for each, (at,) in wanted.items()}),
        partition_count=lambda topic: 3,
    )
    cluster = SimpleNamespace(
        broker_addresses=[], probe_of_leader=None, broker_ids=(1, 2, 3), leader=lambda *place: leaders[place]
    )
    changes = Changes(
        TWO, cluster=cluster, own=None, coordinators=(), unreachable=lambda do, brokers: lambda: None,  # type: ignore[arg-type]
        between=lambda *_: lambda: None, refuse=lambda broker: lambda: None, copy=lambda *_: (), note=lambda _: None,
        ends=dict.fromkeys(range(6), 0),
    )  # fmt: skip
    changes._topics = topics  # type: ignore[assignment]
    changes._carry_out(Move(do=Do.LOSE, partition=4))
    assert set(leaders.values()) == {1, 3}


# --- programs ---------------------------------------------------------------------------------------------------------


def test_there_are_programs_of_several_topics_in_each_role_and_one_from_the_end() -> None:
    assert {program.role for program in programs() if program.topics > 1} == set(Role) - {Role.PROGRAM}
    assert [program.name for program in programs() if program.begins_at_end] == ["group, from the end"]


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_they_are_lawful_stay_so_when_they_shrink_and_can_be_read_back(program: Program) -> None:
    trial = Trial(program=program)
    assert is_lawful(program, program.moves)
    assert from_document(to_document(trial)) == trial
    assert all(move.partition < program.partitions * program.topics for move in program.moves)
    for one in smaller(trial):
        assert all(move.partition < one.program.partitions * one.program.topics for move in one.program.moves)
        assert all(move.topic < one.program.topics for move in one.program.moves)
    assert any(one.program.topics == 1 for one in smaller(trial)) or program.topics == 1 or len(program.moves) > 2


def test_what_the_cluster_does_to_them_keeps_their_numbers() -> None:
    small = [program for program in programs() if program.topics > 1]
    made = [*each_change(small, 1), *(changed(small, seed) for seed in range(50))]
    assert {move.do for program in made for move in program.changes} >= {Do.MOVE_LEADER, Do.LOSE, Do.DELETE_RECORDS}
    assert not {move.do for program in made for move in program.changes} & {Do.ADD_PARTITIONS, Do.RECREATE}
    assert max(move.partition for program in made for move in program.changes) >= 3


# --- from the end -----------------------------------------------------------------------------------------------------


def followed(happened: Sequence[Happening], *, begins_at_end: bool = True) -> Positions:
    positions = Positions({0: tuple(range(10))}, is_auto_commit=False, begins_at_end=begins_at_end)
    positions.follow(happened)
    return positions


def life(*, committed: int | None, then: int) -> list[Happening]:
    assigned = Rebalance(at_us=2, change=Change.ASSIGNED, partitions=frozenset({0}))
    first = Delivered(at_us=3, partition=0, offset=2, value=b"")
    commit = [] if committed is None else [Commit(at_us=4, offsets={0: committed}, told=Told.DONE)]
    again = Delivered(at_us=7, partition=0, offset=then, value=b"")
    return [Connected(at_us=1), assigned, first, *commit, Connected(at_us=5), assigned, again]


def test_who_begins_at_the_end_skips_nothing_that_was_there_before() -> None:
    assert not followed(life(committed=None, then=8)).skips
    assert followed(life(committed=None, then=8), begins_at_end=False).skips


def test_who_has_committed_goes_on_there() -> None:
    assert not followed(life(committed=3, then=3)).skips
    (skip,) = followed(life(committed=3, then=6)).skips
    assert skip.offsets == (3, 4, 5)
    assert followed(life(committed=3, then=1)).repetitions
