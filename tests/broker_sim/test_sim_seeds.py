"""The simulation over some hundred seeds, and that a seed repeats itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker.sim.__main__ import main, parse_seeds
from broker.sim.world import SeedResult, run_seed

ROOT = Path(__file__).parents[2]
SEEDS = os.environ.get("SIM_SEEDS", "1-40")  # make test-all: 1-200, from where each state must have been reached


def outcome(result: SeedResult) -> tuple[object, ...]:
    return result.violation, result.trace_hash, result.events, result.virtual_us, result.acked, result.counts


@pytest.mark.slow
@pytest.mark.timeout(620)
def test_no_invariant_is_violated_and_every_state_is_reached() -> None:
    command = [sys.executable, "-m", "broker.sim", "--seeds", SEEDS, "--coverage-from", "200"]
    command += ["--jobs", str(os.cpu_count() or 1)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.thorough
def test_a_seed_repeats_itself() -> None:
    assert outcome(run_seed(5)) == outcome(run_seed(5))


@pytest.mark.thorough
def test_a_seed_repeats_itself_in_another_process_with_other_hashes() -> None:
    code = "from broker.sim.world import run_seed; print(run_seed(6).trace_hash)"
    hashes = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(hashes) == 1


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
