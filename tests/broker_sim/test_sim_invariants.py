"""Every invariant of the simulation has a class, a file, a name and a sentence of its own, and is used."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from broker.sim.invariants import INVARIANTS, Invariant
from broker.sim.invariants.high_watermark_never_falls_within_an_epoch import HighWatermarkNeverFallsWithinAnEpoch
from broker.sim.invariants.one_vote_per_epoch import OneVotePerEpoch
from broker.sim.invariants_page import sentence
from broker.sim.mutation import read_table
from broker.sim.partition_truth import Watched
from broker.sim.quorum_checker import committed_before

ROOT = Path(__file__).parents[2]
SIM = ROOT / "broker" / "sim"
NOT_ONE = {"__init__.py", "invariant.py"}


def test_all_are_in_the_table_each_with_a_file_of_its_own() -> None:
    files = {path.name for path in (SIM / "invariants").glob("*.py")} - NOT_ONE
    assert sorted(files) == sorted(Path(inspect.getfile(each)).name for each in INVARIANTS)
    assert len({each.NAME for each in INVARIANTS}) == len(INVARIANTS) > 70


@pytest.mark.parametrize("invariant", INVARIANTS, ids=lambda each: each.__name__)
def test_its_docstring_is_one_sentence(invariant: type[Invariant]) -> None:
    text = sentence(invariant)
    assert re.fullmatch(r"[A-Z].*[^.]\.", text)
    assert ". " not in text.replace("min.insync.replicas", ""), "one sentence"


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
