"""`harness client check`: a right client passes, and each wrong one is named by the rule that it breaks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import workloads.clients.process
from harness.cli.clients import client_check
from harness.cli.clients.client_check import check
from harness.cli.hosts import load_hosts
from harness.conformance import bench, judge, producing
from harness.conformance.check import TRIALS, carry_out, first_line
from harness.conformance.world import World
from harness.errors import ExitCode
from tests.harness import client_mutant, framed_client
from workloads.clients.process.build import RECIPES, Built
from workloads.clients.process.conversation import Mistake, Rule

CLIENT = Path(workloads.clients.process.__file__).parent / "shipped" / "python" / "client.py"
RIGHT = (sys.executable, str(CLIENT))
# One of each part that judges. Each rule by itself: tests/harness/test_harness_conformance.py and
# tests/workloads/test_workloads_process_conversation.py.
NAMED = {
    "second outcome": ("outcomes", Rule.OUTCOME_TWICE),
    "acknowledges by itself": ("outcomes", judge.Rule.ACKNOWLEDGED_ABSENT),
    "a word too many": ("share", judge.Rule.LIE),
    "pause without effect": ("pause", judge.Rule.LIE),
    "seek without effect": ("seek", judge.Rule.SKIPPED),
    "several one by one": ("one by one", Rule.TOO_MANY),
    "commit without effect": ("member", judge.Rule.LIE),
    "hang": ("outcomes", Rule.HANG),
    "exit code": ("outcomes", Rule.ENDED),
}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as made:
        yield made


def test_every_mutant_has_a_rule_that_names_it() -> None:
    assert NAMED.keys() == client_mutant.MUTANTS.keys()


def test_a_message_that_begins_with_its_rule_says_it_once(capsys: pytest.CaptureFixture[str]) -> None:
    client_check._print_mistakes("its first line", [Mistake(rule="ended", message="ended: exit code 0", line_number=2)])
    assert capsys.readouterr().out == "its first line: ended: line 2: exit code 0\n"


@pytest.mark.parametrize("mutant", NAMED)
def test_a_wrong_client_is_named_with_the_line_that_shows_it(
    mutant: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, rule = NAMED[mutant]
    if mutant == "hang":
        monkeypatch.setattr(producing, "_FLUSH_S", 0.5)
        monkeypatch.setattr("workloads.clients.process.peer.GRACE_S", 0.5)
    monkeypatch.setattr(bench, "READ_S", 2.0)  # some mutants never give all that is there
    trial = next(trial for trial in TRIALS if trial.name == name)
    mistakes = carry_out(trial, Built(command=(sys.executable, client_mutant.__file__, mutant, *RIGHT)), world)
    found = [mistake for mistake in mistakes if mistake.rule == rule]
    assert found, mistakes
    if rule not in (Rule.HANG, Rule.ENDED):
        assert found[0].line_number > 0
        assert found[0].line


@pytest.mark.parametrize("name", ["manners", "outcomes", "callers", "freeze", "seek", "one by one", "member"])
def test_the_right_client_makes_no_mistake_in_the_trial(name: str, world: World) -> None:
    assert carry_out(next(trial for trial in TRIALS if trial.name == name), Built(command=RIGHT), world) == []


@pytest.mark.parametrize(
    ("wrong", "name", "rule"),
    [
        ("nothing", "frames", None),
        ("nothing", "late frames", None),
        ("failed", "late frames", judge.Rule.FAILED_APPENDED),
    ],
)
def test_a_client_with_frames_is_tried_with_them(wrong: str, name: str, rule: str | None, world: World) -> None:
    trial = next(trial for trial in TRIALS if trial.name == name)
    mistakes = carry_out(trial, Built(command=(sys.executable, framed_client.__file__, wrong, *RIGHT)), world)
    if rule is None:
        assert mistakes == []
    else:
        found = [mistake for mistake in mistakes if mistake.rule == rule]
        assert found, mistakes
        assert found[0].line.startswith("a frame: kind 2, ")


@pytest.mark.long
def test_the_check_passes_for_the_right_client_and_prints_what_it_can(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(RIGHT) == ExitCode.PASS
    table = capsys.readouterr().out.splitlines()
    assert table[0].startswith("confluent-kafka ")
    assert {line.split("  ")[0] for line in table[2:-1]} == {trial.name for trial in TRIALS}
    assert table[-1] == "not declared: share, overlap, cancel, frames"


def test_a_program_that_says_nothing_right_fails_the_check_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert check([sys.executable, "-c", "print('hello')"]) == ExitCode.FAIL
    assert "its first line: not a line of JSON: line 1: " in capsys.readouterr().out


def test_the_first_line_of_a_program_that_does_not_start_is_told() -> None:
    ready, mistakes = first_line(Built(command=("./no-such-client",)))
    assert ready is None
    assert "./no-such-client does not start" in mistakes[0].message


def test_a_worker_that_starts_offers_no_client_that_would_have_to_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_hosts, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr(load_hosts, "client_runtime", lambda client: {})
    assert "confluent" in load_hosts._runtimes()
    assert not RECIPES.keys() & load_hosts._runtimes().keys()
    monkeypatch.setattr(load_hosts, "is_built", lambda client, cache: client == "franz-go")
    assert "franz-go" in load_hosts._runtimes()
    monkeypatch.setattr(
        load_hosts, "installed_versions", lambda client, cache: ["2.4.0"] if client == "confluent" else []
    )
    assert "confluent==2.4.0" in load_hosts._runtimes()
