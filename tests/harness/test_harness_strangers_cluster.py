"""A cluster that the harness did not start is tried by a dry run, and loaded only after somebody agreed."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from harness.cli.arguments.run_options import RunOptions
from harness.cli.clusters import external_cluster
from harness.cli.clusters.external_cluster import Requests, Shape, require_consent, shapes_of, tried, what_it_will_do
from harness.cli.main import execute
from harness.clusters.base import ClusterKey
from harness.clusters.factory import build_cluster
from harness.clusters.process_cluster import ProcessCluster
from harness.errors import EnvironmentFault, ExitCode, UsageError
from harness.plan import build_plan
from harness.run.report.spark_choice import THIS_HOST
from harness.scenarios import cases_of
from harness.suite import load_suite


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """One broker, and everybody may do everything."""
    key = ClusterKey(engine="reference", proxied=False, brokers=1, settings=())
    running = build_cluster(key, tmp_path_factory.mktemp("single"), proxy_choice="none", lease=None, seed=1)
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.mark.slow
def test_topics_that_the_cluster_cannot_hold_are_told_before_anybody_is_asked(
    single: ProcessCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dry run said `topics may be made`, and the run failed in its first cell, a minute later."""
    (tmp_path / "mine.yaml").write_text(SUITE)
    monkeypatch.setattr(external_cluster, "_TRIED_FOR_S", 1.0)  # The broker is there, and no other one comes.
    at = ["--cluster", "external", "--bootstrap-server", single.bootstrap_servers]
    run = ["run", str(tmp_path / "mine.yaml"), *at, "--set", "chaos=[]"]
    bench = ["bench", "--repetitions", "1", *at]
    for words in (run, bench):
        assert execute([*words, "--dry-run"]) == ExitCode.ENVIRONMENT
        told = " ".join(capsys.readouterr().out.split())
        assert "a topic with 3 partitions and 3 replicas would not be made there (INVALID_REPLICATION_FACTOR" in told
        assert execute([*words, "--yes", "--no-report", "--run-dir", str(tmp_path / "run")]) == ExitCode.ENVIRONMENT
        assert "topic.replication_factor" in capsys.readouterr().err
        assert not (tmp_path / "run").exists()
    assert execute([*run, "--dry-run", "--set", "topic.replication_factor=1"]) == ExitCode.PASS
    assert execute([*bench, "--dry-run", "--replication-factor", "1"]) == ExitCode.PASS


SUITE = """
name: mine
engines: [external]
workload: {rate_per_s: 2500, record_size_bytes: 300, measure_ms: 5000}
sweep: {baseline: {linger.ms: 5}, vary: {linger.ms: [0]}, repetitions: 1, repeat_share: 0}
chaos: [{scenario: response-lost, cases: [idempotence-on]}]
"""


RIGHTS = "TOPIC_AUTHORIZATION_FAILED"
POLICY = "POLICY_VIOLATION: Topic replication factor must be 3"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Shape]:
    """What a cluster is asked that makes topics with 3 replicas only, as hosted ones do, and with no more than 12
    partitions."""
    shapes: list[Shape] = []

    def refusal(addresses: object, shape: Shape) -> str:
        shapes.append(shape)
        if shape.partitions > 12:
            return "INVALID_PARTITIONS"
        return "" if shape.replication_factor == 3 else POLICY

    monkeypatch.setattr(external_cluster, "check_cluster", lambda *_: None)
    monkeypatch.setattr(external_cluster, "first_answer", lambda *_, **__: {})
    monkeypatch.setattr(external_cluster, "_refusal", refusal)
    return shapes


def test_a_cluster_that_makes_no_topic_with_one_replica_may_be_used(asked: list[Shape]) -> None:
    """It was refused although it makes each topic of the plan."""
    tried("kafka.example:9092", None, [Shape(3, 3), Shape(6, 3)])
    assert asked == [Shape(3, 3), Shape(6, 3)]
    tried("kafka.example:9092", None)  # Who is asked for rights first has them.


def test_what_of_a_plan_would_not_be_made_is_told_with_its_shape(asked: list[Shape]) -> None:
    for shape, told in (
        (Shape(3, 1), "a topic with 3 partitions and 1 replica would not be made there (POLICY_VIOLATION"),
        (Shape(13, 3), "a topic with 13 partitions and 3 replicas would not be made there (INVALID_PARTITIONS"),
    ):
        with pytest.raises(EnvironmentFault, match=re.escape(told)):
            tried("kafka.example:9092", None, [shape])


@pytest.mark.parametrize("shapes", [[], [Shape(3, 3)]])
def test_who_may_make_no_topic_is_told_of_rights(
    asked: list[Shape], shapes: list[Shape], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_cluster, "_refusal", lambda addresses, shape: RIGHTS)
    with pytest.raises(EnvironmentFault, match="needs CREATE, WRITE, READ and DELETE"):
        tried("kafka.example:9092", None, shapes)


def test_a_plans_topics_are_asked_for_with_their_settings(requests: Requests) -> None:
    """A policy may ask for some."""
    (shape,) = {each for each in shapes_of(requests) if each.partitions == 3}
    assert dict(shape.config) == requests[0][1][0].topic_config
    assert shape.config


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def options_for(bootstrap: str) -> RunOptions:
    return RunOptions(
        engine="external", bootstrap_server=bootstrap, client=None, seed=None, dry_run=False, toxiproxy="embedded",
        spark=THIS_HOST, run_dir=None, make_report=False, argv=(),
    )  # fmt: skip


@pytest.fixture
def requests(tmp_path: Path) -> Requests:
    path = tmp_path / "mine.yaml"
    path.write_text(SUITE)
    suite = load_suite(str(path))
    return [(suite, build_plan(suite, cases_of, seed=1, client="reference"))]


def answered(text: str, monkeypatch: pytest.MonkeyPatch, requests: Requests, bootstrap: str) -> Sequence[str]:
    """What stood on the screen of somebody who types this."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(text))
    monkeypatch.setattr(sys, "stderr", screen)
    require_consent(requests, options_for(bootstrap), is_agreed=False)
    return screen.getvalue().splitlines()


def test_what_a_run_will_do_is_said_in_numbers(requests: Requests) -> None:
    first, topics, load, faults = what_it_will_do(requests, options_for("kafka.example:9092"))
    assert first == "kafka.example:9092 was not started by the harness. This run of 3 cells will"
    assert topics == "- make 3 topics harness-…, and delete them with their groups"
    assert load.startswith("- send up to 2,500 records/s, of up to 300 bytes each, for about ")
    assert faults == "- through proxies here, break the connections of its own clients"


def test_users_of_a_locustfile_are_told(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.touch()
    (tmp_path / "mine.yaml").write_text(SUITE)
    suite = load_suite(str(tmp_path / "mine.yaml"), [f"workload.locust.file={file}", "workload.locust.users=7"])
    own: Requests = [(suite, build_plan(suite, cases_of, seed=1, client="reference"))]
    told = list(what_it_will_do(own, options_for("kafka.example:9092")))
    assert told.count(f"- run 7 users of {file}, which may send what it likes") == 1


def test_a_terminal_is_asked_once(requests: Requests, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = answered("y\n", monkeypatch, requests, "kafka.example:9092")
    assert shown[-1] == "May it be loaded? [y/N] "
    for no in ("n\n", "\n", ""):
        with pytest.raises(UsageError, match="nothing was sent"):
            answered(no, monkeypatch, requests, "kafka.example:9092")


def test_without_a_terminal_only_yes_agrees_and_nothing_waits(
    requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(UsageError, match="give --yes if it may"):
        require_consent(requests, options_for("kafka.example:9092"), is_agreed=False)
    require_consent(requests, options_for("kafka.example:9092"), is_agreed=True)


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Nobody may make topics there."""
    settings = (("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),)
    key = ClusterKey(engine="reference", proxied=False, brokers=1, settings=settings)
    running = build_cluster(key, tmp_path_factory.mktemp("strangers"), proxy_choice="none", lease=None, seed=1)
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.mark.slow
def test_a_dry_run_and_doctor_try_address_and_rights(
    strangers: ProcessCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.yaml").write_text(SUITE)
    at = ["--bootstrap-server", strangers.bootstrap_servers]
    run = ["run", str(tmp_path / "mine.yaml"), "--cluster", "external", *at]
    for words in ([*run, "--dry-run"], ["doctor", *at]):
        assert execute(words) == ExitCode.ENVIRONMENT
        shown = " ".join(capsys.readouterr().out.split())
        assert "a topic harness-… may not be made there (" in shown
        assert "needs CREATE, WRITE, READ and DELETE" in shown
    monkeypatch.setattr(external_cluster, "_refusal", lambda addresses, shape: "")
    assert execute([*run, "--dry-run"]) == ExitCode.PASS
    assert f"ok cluster: 1 broker at {strangers.bootstrap_servers}" in " ".join(capsys.readouterr().out.split())
    assert execute([*run, "--no-report", "--run-dir", str(tmp_path / "run")]) == ExitCode.USAGE
    assert "give --yes if it may" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
