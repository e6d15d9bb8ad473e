"""`harness.explore` with real brokers and librdkafka: a right client is not accused, and planted bugs are found."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import workloads.clients.process
from chaos.lease import Lease
from harness.cli.explore import Question, explore_client
from harness.errors import ExitCode
from harness.explore.bench import Bench
from harness.explore.model import Disturbance, How, Trial
from harness.explore.oracles import suspicions
from harness.explore.programs import plain
from workloads.clients.process.messages import Ability

CLIENT = Path(workloads.clients.process.__file__).parent / "shipped" / "python" / "client.py"
MUTANT = Path(__file__).with_name("explore_mutant.py")
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("explore")
    lease = Lease(directory / "leases")
    command = [sys.executable, str(CLIENT)]
    with Bench(command, environment={}, engine="reference", directory=directory / "cluster", lease=lease) as made:
        yield made
    lease.close()


def test_a_right_client_is_not_accused_whatever_is_answered_or_not(bench: Bench) -> None:
    """Quiet programs of each part, and each way to disturb a request; librdkafka stands all of these."""
    producer, *others = plain([str(word) for word in Ability])
    disturbed = [
        Disturbance(api="Produce", how=how, code=6 if how.is_error else 0, skip=2, late_ms=1_000) for how in How
    ]
    trials = [Trial(program=producer, disturbance=one) for one in disturbed]
    trials += [Trial(program=program) for program in others if program.name != "producer, large batches"]
    with ThreadPoolExecutor(5) as pool:
        found = list(pool.map(lambda pair: bench.run(pair[1], pair[0]), enumerate(trials)))
    for trial, evidence in zip(trials, found, strict=True):
        assert evidence.history.problem == "", str(trial)
        assert [str(one) for one in suspicions(trial, evidence.history)] == [], str(trial)
        assert (evidence.history.disturbed > 0) == (trial.disturbance is not None), str(trial)


def test_a_control_counts_the_requests_of_its_client_only(bench: Bench) -> None:
    programs = {program.name: program for program in plain([str(word) for word in Ability])}
    with ThreadPoolExecutor(2) as pool:
        group = pool.submit(bench.run, Trial(program=programs["group, commits itself"]), 101)
        pool.submit(bench.run, Trial(program=programs["transactions"]), 102).result()
        uses = group.result().uses
    assert uses["Fetch"].requests > 0
    assert uses["Fetch"].version >= 11
    assert uses["OffsetCommit"].requests > 0
    assert not {"Produce", "EndTxn"} & uses.keys()


def explore(mutant: str, directory: Path, part: str, budget: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    question = Question(
        command=(sys.executable, str(MUTANT), mutant),
        client=None,
        engine="reference",
        budget=budget,
        seed=1,
        only=(part,),
        again=None,
        jobs=4,
        run_dir=directory / "run",
    )
    assert explore_client(question) is ExitCode.FAIL
    document: dict[str, object] = json.loads((directory / "run" / "explore.json").read_text())
    return document


@pytest.mark.parametrize(
    ("mutant", "part", "kind"),
    [
        ("commits too far", "groups", "skipped by the consumer"),
        ("dies aborting", "transactions", "the client died"),
    ],
)
def test_a_bug_that_needs_no_fault_is_found_by_a_quiet_run(
    mutant: str, part: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = explore(mutant, tmp_path, part, "45s", monkeypatch)
    findings = document["findings"]
    assert isinstance(findings, list)
    confirmed = {(one["kind"], one["api"]) for one in findings if one["stage"] == "confirmed"}
    assert (kind, "") in confirmed


@pytest.mark.long
def test_a_bug_that_needs_a_late_answer_is_found_and_made_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = explore("sends again", tmp_path, "producer", "3m", monkeypatch)
    findings = document["findings"]
    assert isinstance(findings, list)
    confirmed = [one for one in findings if one["stage"] == "confirmed" and one["kind"] == "duplicated"]
    assert confirmed
    assert min(one["steps"] for one in confirmed) < 20, "of 52"
    assert "duplicated (producer" in capsys.readouterr().out
