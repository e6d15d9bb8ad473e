"""`harness explore --program` with real brokers and a program on librdkafka: a right one is not accused, others are."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.lease import Lease
from harness.cli.explore.explore import Question
from harness.cli.explore.own_program import Own, explore_program
from harness.errors import ExitCode, UsageError
from harness.explore.execution.bench import Bench, Evidence
from harness.explore.execution.own_subject import OwnSubject
from harness.explore.execution.subject import Site
from harness.explore.oracles.oracles import Kind
from harness.explore.oracles.own_program import ProgramOracle, own_program, why_unfit
from harness.explore.trial.model import Disturbance, Do, How, Move, Program, Trial

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
    """Of each kind of the program, on one cluster."""

    def __init__(self, directory: Path) -> None:
        self._lease = Lease(directory / "leases")
        self._numbers = itertools.count(1)
        self._kinds: dict[str, str] = {}  # The key is the number at the end of the client id.
        self._bench = Bench(
            [sys.executable, str(APP)],
            environment={},
            engine="reference",
            directory=directory / "cluster",
            lease=self._lease,
            run_by=self._subject,
        )

    def __enter__(self) -> Trials:
        self._bench.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self._bench.__exit__(*details)
        self._lease.close()

    def _subject(
        self, command: Sequence[str], environment: Mapping[str, str], program: Program, site: Site
    ) -> OwnSubject:
        kind = self._kinds[site.client_id.rpartition("-")[2]]
        patience_s = 8.0 if kind == "endless" else 150.0
        return OwnSubject([*command, kind], environment, program, site, patience_s=patience_s)

    def run(self, kind: str, program: Program, disturbance: Disturbance | None = None) -> Evidence:
        number = next(self._numbers)  # several threads call this
        self._kinds[str(number)] = kind
        evidence = self._bench.run(Trial(program=program, disturbance=disturbance), number)
        assert evidence.history.problem == ""
        return evidence


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    with Trials(tmp_path_factory.mktemp("trials")) as made:
        yield made


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
    ("kind", "message"), [("careless", "no such file: orders.csv"), ("nameless", "KAFKA_CLIENT_ID")]
)
def test_a_program_that_is_no_measure_is_known(trials: Trials, kind: str, message: str) -> None:
    assert message in why_unfit(trials.run(kind, own_program()).history)


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
    careless = Own(command=f"{sys.executable} {APP} careless")
    with pytest.raises(UsageError, match=r"careless.*exit code 1: .*orders\.csv without any fault"):
        explore_program(replace(QUESTION, run_dir=tmp_path / "careless"), careless)
    trial = run_dir / confirmed[0]["files"][0]
    again = replace(QUESTION, again=trial, run_dir=tmp_path / "again")
    assert explore_program(again, own) == ExitCode.FAIL
    assert explore_program(replace(again, run_dir=tmp_path / "right"), OWN) == ExitCode.PASS
