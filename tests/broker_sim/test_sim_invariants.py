"""Every invariant of the simulation has a class, a name and a sentence of its own, stands in the table, and is used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.controller.image import PartitionState
from broker.sim.eligibility import is_unclean
from broker.sim.invariants import INVARIANTS
from broker.sim.invariants.quorum import OneVotePerEpoch, ReplicaThatMayHaveLostRecordsIsNotEligible
from broker.sim.invariants.replication import (
    EligibleReplicasHoldAllThatIsCommitted,
    HighWatermarkNeverFallsWithinAnEpoch,
)
from broker.sim.invariants_page import sentence
from broker.sim.mutation import read_table
from broker.sim.partition_truth import BatchSeen, Truth, Watched
from broker.sim.quorum_checker import committed_before

ROOT = Path(__file__).parents[2]
SIM = ROOT / "broker" / "sim"


def test_all_are_in_the_table_each_once() -> None:
    sources = "\n".join(path.read_text() for path in (SIM / "invariants").glob("*.py"))
    written = re.findall(r"^class (\w+)\(Invariant\):", sources, re.MULTILINE)
    assert sorted(written) == sorted(each.__name__ for each in INVARIANTS)
    assert len({each.NAME for each in INVARIANTS}) == len(INVARIANTS) > 70


def test_the_docstring_of_each_is_one_sentence() -> None:
    for invariant in INVARIANTS:
        text = sentence(invariant)
        assert re.fullmatch(r"[A-Z].*[^.]\.", text), text
        assert ". " not in text.replace("min.insync.replicas", ""), text


@pytest.mark.thorough
def test_each_is_checked_somewhere() -> None:
    sources = "\n".join(path.read_text() for path in SIM.glob("*.py"))
    used = {each.__name__: len(re.findall(rf"\b{each.__name__}\b", sources)) for each in INVARIANTS}
    assert [name for name, count in used.items() if count < 2] == [], "an import, and a use"


def test_nothing_is_violated_that_has_no_class() -> None:
    named = [path.name for path in SIM.glob("*.py") if re.search(r"\bfail\(\s*f?[\"']", path.read_text())]
    assert named == []
    table = read_table((ROOT / "docs" / "reference" / "mutants.md").read_text())
    assert {each.invariant for each in table.values()} <= {each.NAME for each in INVARIANTS}


def test_a_violation_says_what_was_seen() -> None:
    told: list[tuple[str, str]] = []
    votes = OneVotePerEpoch(lambda name, seen: told.append((name, seen)))
    assert votes.voted(1, 5, 2)
    assert not votes.voted(1, 5, 2)
    assert votes.voted(1, 6, 3)
    assert told == []
    assert not votes.voted(1, 5, 3)
    assert told == [("one vote per epoch", "voter 1 voted for 2 and for 3 in epoch 5")]


def test_a_high_watermark_may_be_lower_when_the_role_changed() -> None:
    told: list[str] = []
    invariant = HighWatermarkNeverFallsWithinAnEpoch(lambda _, seen: told.append(seen))
    led, follows = (Watched(4, is_leader, 7, 9, 0) for is_leader in (True, False))
    invariant.check(1, "t-0", led, follows._replace(high_watermark=3))
    assert told == []
    invariant.check(1, "t-0", led, led._replace(high_watermark=3))
    assert told == ["broker 1 t-0 epoch 4: 7 to 3"]


def test_a_leader_of_an_epoch_that_is_over_need_not_have_what_was_committed_later() -> None:
    committed_in = [1, 1, 4, 4, 6]
    assert committed_before(5, committed_in) == 4
    assert committed_before(7, committed_in) == 5
    assert committed_before(1, committed_in) == 0
    assert committed_before(5, [6, 4]) == 2, "an entry is committed with all before it"


def test_an_eligible_replica_that_lacks_what_is_committed_is_named() -> None:
    told: list[str] = []
    invariant = EligibleReplicasHoldAllThatIsCommitted(lambda name, seen: told.append(f"{name}: {seen}"))
    batches = [BatchSeen(number, number, 1, 0, -1, -1, -1, -1, False, False, False) for number in range(3)]
    truth = Truth(committed=batches[:2], committed_by=[1, 1])
    invariant.check(truth, "t-0", 2, (2, 3), log=batches)
    assert told == []
    invariant.check(truth, "t-0", 2, (2, 3), log=batches[:1])
    assert told == [
        "eligible replicas hold all that is committed: t-0: committed up to 2, broker 2 of the ELR [2, 3] ends earlier"
    ]


def test_a_replica_that_may_have_lost_records_is_named_while_it_is_in_sync_or_eligible() -> None:
    told: list[str] = []
    invariant = ReplicaThatMayHaveLostRecordsIsNotEligible(lambda name, seen: told.append(seen))
    state = PartitionState(replicas=(1, 2, 3), isr=(1,), leader=1, leader_epoch=1, partition_epoch=1, elr=(2,))
    invariant.check("t-0", state, doubtful={3})
    assert told == []
    invariant.check("t-0", state, doubtful={2, 3})
    invariant.check("t-0", state, doubtful={1})
    assert told == [
        "t-0: [2] shut down uncleanly; ISR (1,), eligible (2,)",
        "t-0: [1] shut down uncleanly; ISR (1,), eligible (2,)",
    ]


def state_of(
    leader: int, isr: tuple[int, ...], elr: tuple[int, ...] = (), last: tuple[int, ...] = ()
) -> PartitionState:
    return PartitionState(
        replicas=(1, 2, 3),
        isr=isr,
        leader=leader,
        leader_epoch=1,
        partition_epoch=1,
        elr=elr,
        last_known_elr=last,
    )


@pytest.mark.parametrize(
    ("was", "now", "registered", "expected"),
    [
        (state_of(1, (1, 2)), state_of(2, (2,)), set(), False),
        (state_of(1, (1,), (2,)), state_of(2, (2,), (1,)), set(), False),  # the last of the ISR goes, in the same step
        (state_of(1, (1,)), state_of(3, (3,)), set(), True),
        (state_of(-1, (), (2,), (1,)), state_of(1, (1,)), set(), True),  # somebody is eligible
        (state_of(-1, (), (2,), (1,)), state_of(1, (1,)), {2}, False),  # it registers in this step, after a crash
        (state_of(-1, (), (), (1,)), state_of(1, (1,)), set(), False),
        (state_of(-1, (), (), (1,)), state_of(3, (3,)), set(), True),
        (state_of(1, (1,)), state_of(-1, (), (1,), (1,)), set(), False),
    ],
)
def test_which_elections_are_unclean(
    was: PartitionState, now: PartitionState, registered: set[int], expected: bool
) -> None:
    assert is_unclean(was, now, registered=registered) == expected
