"""What a plan's figures of speed are worth is said before it runs, and a suite says on which cluster it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.main import execute
from harness.cli.planning.speed_note import default_engine, speed_note
from harness.errors import ExitCode
from harness.suite import Suite, load_suite

SWEEP = "sweep: {baseline: {linger.ms: 5}, vary: {linger.ms: [0]}, repetitions: 3, forks: 3}"


def suite_of(directory: Path, *lines: str) -> Suite:
    path = directory / "mine.yaml"
    path.write_text("\n".join(["name: mine", "workload: {rate_per_s: 100}", *lines]))
    return load_suite(str(path))


def test_the_reference_broker_and_client_are_named_where_speed_is_asked(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, SWEEP)
    assert "the reference cluster (" in speed_note(suite, "reference", "reference")
    assert " and the reference client (" in speed_note(suite, "docker", "reference")
    assert "cluster" not in speed_note(suite, "kafka", "reference").partition(":")[0]
    assert speed_note(suite, "kafka", "confluent") == ""


def test_a_suite_about_damage_alone_has_no_such_note(tmp_path: Path) -> None:
    assert speed_note(suite_of(tmp_path, "chaos: [{scenario: leader-loss}]"), "reference", "reference") == ""


def test_without_an_option_a_suite_runs_on_the_first_cluster_that_it_names(tmp_path: Path) -> None:
    kafka = suite_of(tmp_path, SWEEP, "engines: [kafka, external]")
    theirs = suite_of(tmp_path, SWEEP, "engines: [external]")
    any_of_them = suite_of(tmp_path, SWEEP)
    assert default_engine([any_of_them], has_address=True) == "reference"
    assert default_engine([kafka], has_address=False) == "kafka"
    assert default_engine([kafka, any_of_them], has_address=False) == "reference"
    assert default_engine([theirs], has_address=True) == "external"
    assert default_engine([theirs], has_address=False) == "reference", "it is refused there, and told what to give"


def test_validate_and_a_dry_run_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite_of(tmp_path, SWEEP)
    assert execute(["validate", str(tmp_path / "mine.yaml")]) == ExitCode.PASS
    assert "carry over to no other" in " ".join(capsys.readouterr().err.split())
    assert execute(["run", str(tmp_path / "mine.yaml"), "--dry-run"]) == ExitCode.PASS
    assert "carry over to no other" in " ".join(capsys.readouterr().err.split())
