"""Every mutant is caught by the simulation, by the seed that docs/reference/mutants.md names."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from broker.mutants import MUTANTS, MutantError, Patch, applied, apply, description
from broker.replication import PartitionReplica
from broker.sim.__main__ import main
from broker.sim.mutation import read_table
from tests.patience import run_command

ROOT = Path(__file__).parents[2]
TABLE = read_table((ROOT / "docs/reference/mutants.md").read_text())


def test_the_table_of_mutants_is_whole_and_none_lives() -> None:
    assert list(TABLE) == list(MUTANTS)
    assert [name for name, each in TABLE.items() if each.seed is None] == []
    assert len(MUTANTS) >= 20
    assert all(description(name).endswith(".") for name in MUTANTS)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(2420)
def test_every_mutant_violates_the_invariant_of_the_table_with_its_seed() -> None:
    command = [sys.executable, "-m", "broker.sim.mutation", "--check", "--jobs", str(os.cpu_count() or 1)]
    done = run_command(command, cwd=ROOT, whole_s=2_400)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_mutant_is_gone_after_its_run() -> None:
    original = PartitionReplica.__dict__["effective_min_insync_replicas"]
    with applied("min_insync_replicas_ignored"):
        assert PartitionReplica.__dict__["effective_min_insync_replicas"] is not original
    assert PartitionReplica.__dict__["effective_min_insync_replicas"] is original


def test_an_unknown_mutant_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(MutantError, match="nearest is 'flush_ignored'"):
        apply("flush_ignord")


def test_a_patch_is_undone_in_reverse() -> None:
    class Owner:
        value = 1

    patch = Patch()
    assert patch.set(Owner, "value", 2) == 1
    assert patch.set(Owner, "value", 3) == 2
    patch.undo()
    assert Owner.value == 1


@pytest.mark.thorough
def test_a_violation_is_told_with_its_seed_and_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    caught = TABLE["high_watermark_ignored"]
    seed = str(caught.seed)
    assert main(["--seeds", seed, "--mutant", "high_watermark_ignored", "--log", "--stop-at-first"]) == 1
    told = capsys.readouterr().out
    assert caught.invariant in told
    assert f"--seeds {seed} --mutant high_watermark_ignored --log" in told
