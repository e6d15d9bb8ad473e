"""A failing seed is left with what it needs to fail, and what is left shows the failure again by its command."""

from __future__ import annotations

import re
import shlex

import pytest

from broker import mutants
from broker.sim.__main__ import main
from broker.sim.plan import settings_of
from broker.sim.report import story_text
from broker.sim.seed_run import SeedResult, run, run_seed
from broker.sim.shrink import parts_of, shrunk, without
from broker.sim.world import Violation

MUTANT = "two_votes_in_one_epoch"
SEED = 8  # as docs/reference/mutants.md has it


def test_every_part_can_be_left_out_and_the_others_stay() -> None:
    seen = set()
    for seed in range(200):
        settings = settings_of(seed)
        parts = parts_of(settings)
        for part in parts:
            seen.add(re.sub(r" \d+$", "", part))
            rest = parts_of(without(settings, [part]))
            assert part not in rest or re.search(r" \d+$", part), (seed, part)
            assert set(parts) - {part} <= set(rest)
    assert len(seen) == 19


def test_a_part_that_the_seed_lacks_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(ValueError, match=r"seed 8 has no part 'fault 99'; it has .*fault 0"):
        without(settings_of(SEED), ["fault 99"])
    with pytest.raises(SystemExit):
        main(["--seeds", "8", "--without", "fault 99"])
    with pytest.raises(SystemExit):
        main(["--seeds", "8-9", "--shrink"])


@pytest.mark.thorough
def test_a_seed_that_nothing_is_left_out_of_runs_as_before() -> None:
    assert run(without(settings_of(3), [])).trace_hash == run_seed(3).trace_hash


@pytest.mark.thorough
def test_a_step_that_is_left_out_is_not_done_and_the_others_begin_when_they_did() -> None:
    settings = settings_of(SEED)
    left_out = [part for part in parts_of(settings) if part.startswith("fault ")]
    whole, less = ([line.split()[0] for line in run(without(settings, out)).faults] for out in ((), left_out))
    assert set(less) < set(whole)
    assert less != []


@pytest.mark.thorough
def test_a_defect_is_left_with_few_parts_and_the_command_shows_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    with mutants.applied(MUTANT):
        found = shrunk(SEED, runs_max=60)
    assert found is not None
    assert found.left.violation is not None
    assert found.whole.violation is not None
    assert found.left.violation.invariant == found.whole.violation.invariant == "one vote per epoch"
    assert len(found.kept) < len(found.parts) / 2
    assert found.runs <= 60
    assert main(["--seeds", str(SEED), "--mutant", MUTANT, "--shrink", "--runs-max", "60"]) == 1
    text = capsys.readouterr().out
    command = re.search(r"again: python -m broker\.sim (.*)", text)
    assert command is not None
    assert main(shlex.split(command[1])) == 1
    again = capsys.readouterr().out
    assert f"trace {found.left.trace_hash:08x}" in again
    assert "VIOLATED one vote per epoch" in again


@pytest.mark.thorough
def test_a_seed_that_violates_nothing_has_nothing_to_shrink(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3", "--shrink"]) == 0
    assert capsys.readouterr().out == "seed 3 violates nothing\n"


def test_the_story_has_faults_and_words_in_the_order_of_time_and_repeats_nothing() -> None:
    result = SeedResult(
        seed=7,
        violation=Violation(invariant="one vote per epoch", message="", at_us=10_500_000),
        trace_hash=1,
        events=1,
        virtual_us=1,
        acked=0,
        counts={},
        faults=["9.500 kill broker 2"],
        log=["9.250000 INFO node=1 started", "9.750000 WARN node=1 refused", "10.250000 WARN node=1 refused"],
    )
    assert story_text(result).splitlines() == [
        "    9.250000 INFO node=1 started",
        "    9.500000 FAULT kill broker 2",
        "    9.750000 WARN node=1 refused (2 times, until 10.250)",
        "   10.500000 VIOLATED one vote per epoch",
    ]
