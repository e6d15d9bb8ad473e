"""`harness explore`: what it refuses before it starts anything, each with what was expected."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli.clients.own_client import words_from_anywhere
from harness.cli.explore.explore import Question, explore_client
from harness.cli.explore.own_program import Own, explore_program
from harness.cli.main import execute
from harness.errors import ExitCode, UsageError
from harness.explore.generators.programs import plain
from harness.explore.oracles.own_program import own_program
from harness.explore.trial.model import Trial, to_document

QUESTION = Question(
    command=(sys.executable, "-c", "print('hello')"),
    client=None,
    engine="reference",
    budget="10m",
    seed=0,
    only=(),
    again=None,
    jobs=1,
    run_dir=None,
)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (replace(QUESTION, budget="ten"), "--budget: 'ten' is no duration: write 200ms, 1.5s or 1m"),
        (replace(QUESTION, budget="5s"), "--budget 5s: from 10s to 24 h"),
        (replace(QUESTION, engine="external"), "--cluster external: a search starts its own cluster"),
        (replace(QUESTION, only=("group",)), "--only group: there is no such part.*groups"),
        (
            replace(QUESTION, client="kafkjs", command=()),
            "--client kafkjs: no such client; did you mean 'kafkajs'",
        ),
        (
            replace(QUESTION, client="reference", command=()),
            "--client reference: cannot be searched.*kafkajs.*client protocol",
        ),
        (replace(QUESTION, client="kafkajs"), "both --client kafkajs and a command"),
        (replace(QUESTION, command=()), "no client, expected how it is started"),
        (replace(QUESTION, again=Path("nothing.json")), "--again nothing.json: no trial of a search"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_was_expected(question: Question, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        explore_client(question)


def test_a_file_of_another_kind_is_refused_by_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "trial.json"
    path.write_text(json.dumps({**to_document(Trial(program=plain(["produce"])[0])), "format": 7}))
    with pytest.raises(UsageError, match="format: 7, this version reads 1"):
        explore_client(replace(QUESTION, again=path))


def test_the_command_that_tries_again_works_in_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my client.py").touch()
    (tmp_path / "python").touch()  # a first word without a slash is looked for elsewhere
    full = f"'{tmp_path}/my client.py'"
    assert words_from_anywhere(["python", "my client.py", "--fast"], None) == f"-- python {full} --fast"
    assert words_from_anywhere(["python 'my client.py' --fast"], None) == f"-- python {full} --fast"
    assert words_from_anywhere(["'./my client.py'"], None) == f"-- {full}"
    assert words_from_anywhere((), "kafkajs==2.2.4") == "--client kafkajs==2.2.4"


@pytest.mark.slow
@pytest.mark.parametrize("command", [QUESTION.command, ("./no-such-client",)])
def test_a_program_that_is_no_client_is_told_where_to_look(command: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="harness client check"):
        explore_client(replace(QUESTION, command=command))


def test_a_trial_of_a_program_is_none_of_a_client_and_the_other_way_round(tmp_path: Path) -> None:
    own, moves = tmp_path / "own.json", tmp_path / "moves.json"
    own.write_text(json.dumps(to_document(Trial(program=own_program()))))
    moves.write_text(json.dumps(to_document(Trial(program=plain(["produce"])[0]))))
    with pytest.raises(UsageError, match="a trial of a search with --program; expected one of a search with a client"):
        explore_client(replace(QUESTION, again=own))
    question = replace(QUESTION, again=moves, command=())
    with pytest.raises(UsageError, match="a trial of a search with a client; expected one of a search with --program"):
        explore_program(question, Own(command=sys.executable))


def test_a_program_that_may_not_be_executed_is_not_called_absent(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text("print(1)\n")
    with pytest.raises(UsageError, match=r"app.py may not be executed: chmod \+x it, or begin with its interpreter"):
        explore_program(replace(QUESTION, command=()), Own(command=str(file)))


@pytest.mark.parametrize("option", [["--patience", "9s"], ["--records-before", "3"]])
def test_an_option_of_a_program_without_one_is_refused(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["explore", "--client", "kafkajs", *option]) == ExitCode.USAGE
    assert f"{option[0]} belongs to --program" in capsys.readouterr().err
