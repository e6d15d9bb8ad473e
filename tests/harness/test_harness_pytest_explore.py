"""The fixture `kafka_explore`: a search with a program under test, which fails as a test does.

What a search finds is shown by test_harness_explore_program.py. Here it is told to pytest.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import pytest_explore
from harness.cli.explore.explore import Question
from harness.cli.explore.own_program import Own
from harness.errors import ExitCode
from harness.fixtures import Inconclusive
from harness.pytest_explore import Explore
from tests.harness.test_harness_pytest_plugin import run_pytest

APP = Path(__file__).with_name("explore_own_app.py")
CAUSE = {"cause": "gave up (program, in start)", "findings": [2], "known": ""}
TESTS = """
import sys

def test_hasty(kafka_explore):
    kafka_explore.program([sys.executable, "APP", "hasty"], budget="BUDGET", seed=1)

def test_careless(kafka_explore):
    kafka_explore.program([sys.executable, "APP", "careless"], budget="BUDGET")
"""


class Searched:
    """Instead of a search: what one leaves, and what it was asked."""

    def __init__(self, code: ExitCode, *causes: dict[str, object], problems: tuple[str, ...] = ()) -> None:
        self.code, self.causes, self.problems = code, causes, problems
        self.question: Question | None = None
        self.own: Own | None = None

    def __call__(self, question: Question, own: Own) -> ExitCode:
        self.question, self.own = question, own
        assert question.run_dir is not None
        place = question.run_dir / "findings" / "2"
        place.mkdir(parents=True)
        (place / "story.txt").write_text("a Produce is refused\n")
        document = {
            "trials": 3,
            "causes": self.causes,
            "findings": [{"number": 2, "again": "harness explore --again x"}],
            "trials_that_proved_nothing": self.problems,
        }
        (question.run_dir / "explore.json").write_text(json.dumps(document))
        return self.code


def searched(
    monkeypatch: pytest.MonkeyPatch, code: ExitCode, *causes: dict[str, object], problems: tuple[str, ...] = ()
) -> Searched:
    made = Searched(code, *causes, problems=problems)
    monkeypatch.setattr(pytest_explore, "explore_program", made)
    return made


def test_a_finding_fails_with_its_story_and_a_known_one_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = searched(monkeypatch, ExitCode.FAIL, CAUSE, {**CAUSE, "cause": "an old one", "known": "our issue 7"})
    with pytest.raises(AssertionError) as failed:
        Explore(tmp_path, "kafka==3.9.1").program(["python", "my app.py"], seed=7, records_before=5)
    told = str(failed.value)
    assert told.startswith("python 'my app.py' does not stand this:\n\ngave up (program, in start)\n")
    assert "a Produce is refused\nagain: harness explore --again x" in told
    assert "an old one" not in told
    assert made.question is not None
    assert (made.question.engine, made.question.seed) == ("kafka==3.9.1", 7)
    assert made.own == Own(command="python 'my app.py'", records_before=5)


def test_what_proved_nothing_is_no_pass_and_each_search_has_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixture = Explore(tmp_path, "reference")
    searched(monkeypatch, ExitCode.PASS)
    assert fixture.program("python app.py") == tmp_path / "explore-1"
    searched(monkeypatch, ExitCode.INCONCLUSIVE, problems=("no leader",))
    with pytest.raises(Inconclusive, match="1 of 3 trials proved nothing: no leader"):
        fixture.program("python app.py")
    searched(monkeypatch, ExitCode.INTERRUPTED)
    with pytest.raises(KeyboardInterrupt):
        fixture.program("python app.py")


@pytest.mark.slow
def test_a_program_that_fails_by_itself_is_an_error_in_pytest_too(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(TESTS.replace("APP", str(APP)).replace("BUDGET", "10s"))
    done = run_pytest(tmp_path, "-k", "careless")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "orders.csv without any fault" in done.stdout
    docker = run_pytest(tmp_path, "-k", "careless", "--kafka-cluster", "docker")
    assert "a search starts its own cluster, reference or kafka" in docker.stdout


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_a_program_does_not_stand_fails_its_test(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(TESTS.replace("APP", str(APP)).replace("BUDGET", "100s"))
    done = run_pytest(tmp_path, "-k", "hasty")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "does not stand this:" in done.stdout
    assert "kafka is broken" in done.stdout
    assert "again: harness explore --again" in done.stdout
