"""`harness explore --program` with real brokers and a program on librdkafka: a right one is not accused, others are."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from chaos.lease import Lease
from harness.cli.explore import Question
from harness.cli.explore_program import Own, explore_program
from harness.errors import ExitCode, UsageError
from harness.explore.bench import Bench, Evidence
from harness.explore.model import Disturbance, Do, How, Move, Program, Trial
from harness.explore.oracles import Kind
from harness.explore.own_program import ProgramOracle, own_program, why_unfit
from harness.explore.own_subject import OwnSubject

APP = Path(__file__).with_name("explore_own_app.py")
QUESTION = Question(
    command=(), client=None, engine="reference", budget="10m", seed=0, only=(), again=None, jobs=3, run_dir=None
)
OWN = Own(command=f"{sys.executable} {APP} right")
REFUSED = Disturbance(api="Produce", how=How.ERROR_BEFORE, code=6)


@pytest.mark.parametrize(
    ("question", "own", "message"),
    [
        (replace(QUESTION, client="kafkajs"), OWN, "both --program and --client"),
        (replace(QUESTION, command=("./client",)), OWN, "both --program and a command of a client"),
        (replace(QUESTION, only=("groups",)), OWN, "both --program and --only"),
        (QUESTION, Own(command=""), "--program is empty"),
        (QUESTION, Own(command="python 'app.py"), "--program .*No closing quotation"),
        (QUESTION, Own(command="./no-such-app x"), "there is no program ./no-such-app"),
        (QUESTION, replace(OWN, patience="soon"), "--patience: 'soon' is no duration"),
        (QUESTION, replace(OWN, patience="70m"), "--patience 70m: from 1s to 1 h"),
        (replace(QUESTION, budget="1s"), OWN, "--budget 1s"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_was_expected(question: Question, own: Own, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        explore_program(question, own)


class Trials:
    """Of one kind of the program, on one cluster."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lease = Lease(directory / "leases")
        self._benches: dict[str, Bench] = {}
        self._number = 0

    def run(self, kind: str, program: Program, disturbance: Disturbance | None = None) -> Evidence:
        self._number += 1
        bench = self._benches.get(kind) or self._begin(kind)
        evidence = bench.run(Trial(program=program, disturbance=disturbance), self._number)
        assert evidence.history.problem == ""
        return evidence

    def _begin(self, kind: str) -> Bench:
        command = [sys.executable, str(APP), kind]
        made = Bench(
            command,
            environment={},
            engine="reference",
            directory=self._directory / kind,
            lease=self._lease,
            run_by=partial(OwnSubject, patience_s=20.0 if kind == "endless" else 150.0),
        )
        self._benches[kind] = made.__enter__()
        return made

    def end(self) -> None:
        for bench in self._benches.values():
            bench.__exit__(None, None, None)
        self._lease.close()


@pytest.fixture
def trials(tmp_path: Path) -> Iterator[Trials]:
    made = Trials(tmp_path)
    yield made
    made.end()


@pytest.mark.slow
def test_a_right_program_is_not_accused(trials: Trials) -> None:
    quiet = [trials.run("right", own_program()) for _ in range(2)]
    oracle = ProgramOracle.of([evidence.history for evidence in quiet])
    assert oracle.is_repeatable
    assert len(oracle.quiet[0]) == 60
    assert [why_unfit(evidence.history) for evidence in quiet] == ["", ""]
    program = own_program(quiet[0].uses)
    assert program.properties == {"enable.idempotence": "true"}
    moved = replace(program, moves=(*program.moves, Move(do=Do.MOVE_LEADER, partition=0)))
    disturbed = [Disturbance(api="Produce", how=how, code=6 if how.is_error else 0, late_ms=1_000) for how in How]
    cases = [(program, one) for one in disturbed if one.how is not How.ALTERED] + [(moved, None)]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda case: trials.run("right", *case), cases))
    for (tried, disturbance), evidence in zip(cases, found, strict=True):
        trial = Trial(program=tried, disturbance=disturbance)
        assert [str(one) for one in oracle(trial, evidence.history)] == [], str(trial)
        assert (evidence.history.disturbed > 0) == (disturbance is not None), str(trial)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seen"), [("forgetful", Kind.LOST), ("endless", Kind.STUCK)])
def test_what_a_program_does_wrong_after_one_refusal_is_seen(trials: Trials, kind: str, seen: Kind) -> None:
    quiet = trials.run(kind, own_program())
    oracle = ProgramOracle.of([quiet.history])
    assert why_unfit(quiet.history) == ""
    program = own_program(quiet.uses)
    evidence = trials.run(kind, program, REFUSED)
    assert [one.kind for one in oracle(Trial(program=program, disturbance=REFUSED), evidence.history)] == [seen]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "message"), [("careless", "exit code 1: .*orders.csv"), ("nameless", "KAFKA_CLIENT_ID")]
)
def test_a_program_that_is_no_measure_is_refused(tmp_path: Path, kind: str, message: str) -> None:
    own = Own(command=f"{sys.executable} {APP} {kind}")
    with pytest.raises(UsageError, match=message):
        explore_program(replace(QUESTION, run_dir=tmp_path / "run"), own)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_bug_of_a_program_is_found_told_and_tried_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own, run_dir = Own(command=f"{sys.executable} {APP} hasty"), tmp_path / "run"
    junit = tmp_path / "junit.xml"
    code = explore_program(replace(QUESTION, budget="100s", seed=1, run_dir=run_dir, junit=junit), own)
    out = capsys.readouterr().out
    assert code == ExitCode.FAIL, out
    found = json.loads((run_dir / "explore.json").read_text())
    confirmed = [one for one in found["findings"] if one["stage"] == "confirmed"]
    assert {one["kind"] for one in confirmed} == {"gave up on what passes by itself"}
    assert "--program" in confirmed[0]["again"]
    assert (run_dir / "explore.html").is_file()
    assert "kafka is broken" in (run_dir / confirmed[0]["files"][1]).read_text()
    assert "gave up on what passes by itself (program" in junit.read_text()
    trial = run_dir / confirmed[0]["files"][0]
    again = replace(QUESTION, again=trial, run_dir=tmp_path / "again")
    assert explore_program(again, own) == ExitCode.FAIL
    assert explore_program(replace(again, run_dir=tmp_path / "right"), OWN) == ExitCode.PASS
