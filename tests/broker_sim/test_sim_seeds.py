"""The simulation over some seeds, and that a seed repeats itself."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from broker.sim.__main__ import main, parse_seeds
from broker.sim.faults import Faults
from broker.sim.report import outcome_text
from broker.sim.seed_run import SeedResult, run_seed
from broker.sim.world import Violation
from tests.patience import run_command

ROOT = Path(__file__).parents[2]
SEEDS = os.environ.get("SIM_SEEDS", "1-3")  # make test-all: 1-200, from where each state must have been reached


def outcome(result: SeedResult) -> tuple[object, ...]:
    return result.violation, result.trace_hash, result.events, result.virtual_us, result.acked, result.counts


@pytest.mark.slow
@pytest.mark.timeout(1820)
def test_no_invariant_is_violated_and_every_state_is_reached() -> None:
    command = [sys.executable, "-m", "broker.sim", "--seeds", SEEDS, "--coverage-from", "200"]
    command += ["--jobs", str(os.cpu_count() or 1)]
    done = run_command(command, cwd=ROOT, whole_s=1_800)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.thorough
def test_a_seed_repeats_itself_here_and_in_another_process_with_other_hashes() -> None:
    code = "from tests.broker_sim.test_sim_seeds import outcome, run_seed; print(outcome(run_seed(3)))"
    first = outcome(run_seed(3))
    assert outcome(run_seed(3)) == first
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)}
    there = run_command([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True).stdout
    assert there.strip() == str(first)


def test_the_line_of_a_seed_tells_two_outcomes_apart() -> None:
    one = SeedResult(
        seed=7,
        violation=None,
        trace_hash=0xABC,
        events=10,
        virtual_us=20,
        acked=3,
        counts={"b": 1, "a": 2},
        faults=["f"],
    )
    assert outcome_text(one).startswith("7 00000abc 10 20 3 ")
    assert outcome_text(one) == outcome_text(replace(one, counts={"a": 2, "b": 1}, log=["not a part of it"]))
    violation = Violation(invariant="a run ends", message="", at_us=1)
    others = [
        replace(one, trace_hash=1),
        replace(one, acked=4),
        replace(one, counts={"a": 2}),
        replace(one, faults=[]),
        replace(one, violation=violation),
    ]
    assert len({outcome_text(each) for each in (one, *others)}) == 6


def test_an_exception_is_the_violation_of_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended the whole run of seeds before, as seed 4930 did."""

    def broken(self: Faults) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr(Faults, "plan", broken)
    violation = run_seed(3).violation
    assert violation is not None
    assert violation.invariant == "the simulation does not raise"
    assert violation.message.startswith("IndexError('list index out of range') in broken (")


def test_ranges_of_seeds() -> None:
    assert list(parse_seeds("3-5")) == [3, 4, 5]
    assert list(parse_seeds("7")) == [7]
    for wrong in ("5-3", "a", "1-b", "-1"):
        with pytest.raises(Exception, match="expected N"):
            parse_seeds(wrong)


@pytest.mark.thorough
def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = str(tmp_path / "state.json")
    assert main(["--seeds", "2-3", "--state", state, "--budget-s", "0"]) == 0
    assert "out of time after seed 2" in capsys.readouterr().out
    assert main(["--seeds", "2-3", "--state", state]) == 0
    assert "2 seeds" in capsys.readouterr().out
