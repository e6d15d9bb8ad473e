"""An external cluster behind our proxies: no client bypasses them, SASL passes, TLS ends there, verdicts hold.

The first half uses a reference cluster as if it were external. The second half (`make test-external`) uses Apache Kafka
with TLS and SASL, not started by the harness, under whole scenarios.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from chaos.ports.cluster import NotOurs
from harness.cli.main import execute
from harness.clusters.base import ClusterKey
from harness.clusters.external import ExternalCluster
from harness.clusters.factory import build_cluster
from harness.clusters.ports import PortAllocator
from harness.clusters.process_cluster import ProcessCluster
from harness.clusters.proxies import LinkProxies
from harness.clusters.requests.admin import Admin
from harness.clusters.requests.probe import AuthenticationFailed
from harness.clusters.security import read_security
from harness.errors import EnvironmentFault, ExitCode
from harness.scenarios import load_scenario
from runlog.streams.parquet import read_stream
from tests.harness.harness_process import HarnessProcess
from tests.harness.no_load import port_of
from tests.harness.secured_kafka import SecuredKafka
from workloads.clients.confluent.load import producer_settings

pytestmark = pytest.mark.slow
DAMAGE = {
    "chaos-response-lost-idempotence-off": "duplicated",
    "chaos-request-refused-in-flight-5": "reordered",
}


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    yield from of_others(tmp_path_factory.mktemp("strangers"), brokers=2, settings={})


def of_others(directory: Path, *, brokers: int, settings: Mapping[str, str]) -> Iterator[ProcessCluster]:
    """A reference cluster that is used as if it were somebody else's."""
    key = ClusterKey(engine="reference", proxied=False, brokers=brokers, settings=tuple(sorted(settings.items())))
    running = build_cluster(key, directory, proxy_choice="none", lease=None, seed=1)
    try:
        running.start()
        yield running
    finally:
        running.stop()


def proxies(directory: Path) -> LinkProxies:
    return LinkProxies("embedded", directory=directory / "proxies", lease=None, seed=1, ports=PortAllocator())


def test_a_client_that_begins_at_the_proxies_hears_of_no_other_address(
    strangers: ProcessCluster, tmp_path: Path
) -> None:
    cluster = ExternalCluster(strangers.bootstrap_servers, proxies=proxies(tmp_path))
    try:
        cluster.start()
        assert cluster.broker_ids == (1, 2)
        assert cluster.link_proxies().names() == ("client-1", "client-2")
        Admin(cluster.direct_addresses).create_topic("theirs", partitions=2, replication_factor=2, config={})
        assert cluster.wait_healthy("theirs", timeout_s=20, replication_factor=2)
        shown = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=20)
        at_proxies = {f"{broker.host}:{broker.port}" for broker in shown.brokers.values()}
        assert at_proxies == set(cluster.bootstrap_servers.split(","))
        assert at_proxies.isdisjoint(strangers.bootstrap_servers.split(","))
        client, name = cluster.link_proxies().kafka("client-1")
        client.disable(name)
        client.disable(cluster.link_proxies().kafka("client-2")[1])
        with pytest.raises(KafkaException):
            AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=1)
        assert cluster.state("theirs") is not None, "the harness itself goes past the proxies"
        port = port_of(cluster)
        with pytest.raises(NotOurs, match=r"nobody here can end, start or pause a broker: the harness did not start"):
            port.processes.kill(1)
        with pytest.raises(NotOurs, match=r"nobody here can reach the files of a broker: the harness did not start"):
            port.files.disk_control(1)
    finally:
        cluster.stop()
    assert strangers.is_running(1), "what is not ours stays up"


MEMBER_SCENARIOS = ("share-consumer-killed", "consumer-kill")
WANTED = {name: value for each in MEMBER_SCENARIOS for name, value in load_scenario(each).broker_settings.items()}


@pytest.fixture(scope="module")
def as_wanted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    yield from of_others(tmp_path_factory.mktemp("as-wanted"), brokers=3, settings=WANTED)


@pytest.mark.long
@pytest.mark.parametrize(
    ("scenario", "case", "client"),
    [("share-consumer-killed", "explicit", "reference"), ("consumer-kill", "commit-after", "confluent")],
)
def test_members_of_groups_are_killed_on_somebody_elses_cluster(
    as_wanted: ProcessCluster, tmp_path: Path, scenario: str, case: str, client: str
) -> None:
    process = HarnessProcess(
        tmp_path, "chaos", scenario, "--case", case, "--yes", "--cluster", "external", "--client", client,
        "--bootstrap-server", as_wanted.bootstrap_servers, "--run-dir", "run",
    )  # fmt: skip
    try:
        assert process.wait() == ExitCode.PASS, process.screen + process.stdout
    finally:
        process.close()
    assert as_wanted.is_running(1)


def test_a_scenario_that_needs_other_settings_of_the_brokers_is_left_out(
    strangers: ProcessCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    at = [
        "--yes",
        "--cluster",
        "external",
        "--bootstrap-server",
        strangers.bootstrap_servers,
        "--toxiproxy",
        "embedded",
    ]
    assert execute(["chaos", *MEMBER_SCENARIOS, *at]) == ExitCode.USAGE
    told = " ".join(capsys.readouterr().err.split())
    assert "nothing is left to run" in told
    wanted = "scenario consumer-kill, case commit-after, needs group.initial.rebalance.delay.ms=500 at broker 2, which"
    assert wanted in told
    assert list(tmp_path.iterdir()) == [], "nothing was started"


def test_a_cluster_that_does_not_answer_says_what_to_look_at() -> None:
    with pytest.raises(EnvironmentFault, match="--client-config FILE"):
        ExternalCluster("127.0.0.1:1").start()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    kafka = SecuredKafka(tmp_path_factory.mktemp("secured"), brokers=3)
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.stop()


@pytest.mark.external
@pytest.mark.kafka
@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_every_protocol_reaches_the_brokers_and_clients_through_the_proxies(
    secured: SecuredKafka, tmp_path: Path, protocol: str, mechanism: str
) -> None:
    security = read_security(secured.client_config(protocol, mechanism), tmp_path)
    cluster = ExternalCluster(secured.bootstrap(protocol), security=security, proxies=proxies(tmp_path))
    try:
        cluster.start()
        assert cluster.broker_ids == (1, 2, 3)
        settings = {
            name: value
            for name, value in producer_settings(cluster.client_properties).items()
            if not name.startswith("queue.")
        }
        assert not any(name.startswith("ssl.") for name in settings), "TLS ends at the proxies"
        shown = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **settings}).list_topics(timeout=20)
        assert {broker.port for broker in shown.brokers.values()}.isdisjoint(secured.ports)
    finally:
        cluster.stop()


@pytest.mark.external
@pytest.mark.kafka
def test_a_wrong_password_and_an_untrusted_certificate_are_told_in_the_brokers_words(
    secured: SecuredKafka, tmp_path: Path
) -> None:
    wrong = read_security(secured.client_config("SASL_SSL", "SCRAM-SHA-256", password="another"), tmp_path)
    with pytest.raises(AuthenticationFailed, match="SASL_AUTHENTICATION_FAILED"):
        ExternalCluster(secured.bootstrap("SASL_SSL"), security=wrong).start()
    untrusting = tmp_path / "client.properties"
    untrusting.write_text("security.protocol=SSL\n")
    with pytest.raises(AuthenticationFailed, match="certificate verify failed"):
        ExternalCluster(secured.bootstrap("SSL"), security=read_security(untrusting, tmp_path)).start()


@pytest.mark.external
@pytest.mark.kafka
@pytest.mark.parametrize(
    ("protocol", "mechanism", "client"),
    [("SASL_SSL", "SCRAM-SHA-256", "confluent"), ("SASL_PLAINTEXT", "PLAIN", "java"), ("SSL", "PLAIN", "reference")],
)
def test_scenarios_do_the_predicted_damage_on_a_secured_cluster(
    secured: SecuredKafka, tmp_path: Path, protocol: str, mechanism: str, client: str
) -> None:
    for number, (scenario, case) in enumerate(
        (("response-lost", "idempotence-off"), ("request-refused", "in-flight-5"))
    ):
        process = HarnessProcess(
            tmp_path, "chaos", scenario, "--case", case, "--yes", "--cluster", "external",
            "--bootstrap-server", secured.bootstrap(protocol),
            "--client-config", str(secured.client_config(protocol, mechanism)), "--client", client,
            "--run-dir", f"run-{number}",
        )  # fmt: skip
        try:
            assert process.wait() == ExitCode.PASS, process.screen + process.stdout
        finally:
            process.close()
        (cell,) = json.loads((tmp_path / f"run-{number}" / "results" / "verdicts.json").read_text())["cells"]
        sets = cell["predicted"][DAMAGE[cell["cell_id"]]]
        assert sets["predicted"] == sets["observed"] > 0
        assert sets["only_predicted"] == sets["only_observed"] == 0
        written = [
            path for path in (tmp_path / f"run-{number}").rglob("*.json*") if secured.password in path.read_text()
        ]
        assert written == [], "the password is in no file of the run"


@pytest.mark.external
@pytest.mark.kafka
@pytest.mark.parametrize(
    ("client", "in_flight"), [("reference", 5), ("confluent", 5), ("java", 5), ("aiokafka", 1), ("kafka_python", 5)]
)
def test_a_suite_runs_on_a_secured_cluster_without_proxies(
    secured: SecuredKafka, tmp_path: Path, client: str, in_flight: int
) -> None:
    process = HarnessProcess(
        tmp_path, "run", "smoke", "--set", "chaos=[]", "--yes", "--cluster", "external", "--client", client,
        "--set", f"sweep.baseline.max.in.flight.requests.per.connection={in_flight}",
        "--bootstrap-server", secured.bootstrap("SASL_SSL"), "--no-report", "--run-dir", "run",
        "--client-config", str(secured.client_config("SASL_SSL", "SCRAM-SHA-256")),
    )  # fmt: skip
    try:
        assert process.wait() == ExitCode.PASS, process.screen + process.stdout
    finally:
        process.close()
    cells = [json.loads(path.read_text()) for path in (tmp_path / "run" / "cells").glob("*/cell.json")]
    assert {cell["outcome"]["status"] for cell in cells} == {"done"}
    assert all(cell["outcome"]["final_read"]["complete"] for cell in cells)


MEMBERS = """
name: members
description: Group members, copiers and an auditor in processes of their own.
seed: 1
cluster: {brokers: 3}
topic: {partitions: 3, replication_factor: 3, config: {min.insync.replicas: 2}}
workload:
  rate_per_s: 100
  record_size_bytes: 64
  warmup_ms: 300
  measure_ms: 2000
  drain_ms: 60000
  readers:
    - {name: app, consumers: 2, mode: group, own_processes: true}
    #copiers
sweep:
  baseline: {acks: all, enable.idempotence: true, max.in.flight.requests.per.connection: 1, linger.ms: 5}
  vary: {}
"""
COPIERS = """    - {name: copier, consumers: 2, mode: group, own_processes: true, copies: true}
    - {name: audit, mode: group, own_processes: true, reads: copies}"""


@pytest.mark.external
@pytest.mark.kafka
@pytest.mark.parametrize(
    ("protocol", "mechanism", "client", "copiers"),
    [
        ("SASL_SSL", "SCRAM-SHA-512", "reference", COPIERS),
        ("SASL_SSL", "SCRAM-SHA-256", "confluent", COPIERS),
        ("SASL_SSL", "PLAIN", "java", COPIERS),
        ("SASL_SSL", "SCRAM-SHA-256", "aiokafka", ""),
        ("SASL_SSL", "SCRAM-SHA-256", "kafka_python", ""),
    ],
)
def test_members_and_copiers_get_in_as_the_load_does(
    secured: SecuredKafka, tmp_path: Path, protocol: str, mechanism: str, client: str, copiers: str
) -> None:
    """Without proxies, so that TLS and SASL are the members' own: consumers, and the producers of the copiers."""
    (tmp_path / "members.yaml").write_text(MEMBERS.replace("    #copiers", copiers))
    process = HarnessProcess(
        tmp_path, "run", "members.yaml", "--yes", "--cluster", "external", "--client", client,
        "--bootstrap-server", secured.bootstrap(protocol), "--no-report", "--no-certify", "--run-dir", "run",
        "--client-config", str(secured.client_config(protocol, mechanism)),
    )  # fmt: skip
    try:
        assert process.wait() == ExitCode.PASS, process.screen + process.stdout
    finally:
        process.close()
    run_dir = tmp_path / "run"
    outcome = json.loads((run_dir / "cells" / "sweep-baseline" / "cell.json").read_text())["outcome"]
    assert (outcome["status"], outcome["members"]["caught_up"], outcome["members"]["died"]) == ("done", True, [])
    sent = identities_in(run_dir, "send")
    assert len(sent) > 100
    assert identities_in(run_dir, "recv") == sent
    if copiers:
        assert outcome["copies"]["complete"]
        assert identities_in(run_dir, "copies") == identities_in(run_dir, "audit") == sent
    assert [path for path in run_dir.rglob("*.json*") if secured.password in path.read_text()] == []


def identities_in(run_dir: Path, stream: str) -> set[tuple[int, int, int]]:
    table = read_stream(run_dir, stream, "sweep-baseline")
    columns = (table.column(name).to_pylist() for name in ("producer", "incarnation", "seq"))
    return set(zip(*columns, strict=True))
