"""Every listener of a secured cluster of three nodes, of both kinds: plain text is refused, and between brokers and
controllers whoever is no broker. A cell with a cut link between brokers runs on it."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from broker.security.sasl_client import Credentials
from chaos.faults.probe_login import log_in
from chaos.faults.probes import Door, probe_link
from harness.cluster_security import ClusterSecurity
from harness.clusters.base import Address, ClusterKey
from harness.clusters.factory import build_layout
from harness.clusters.kafka.jars import ensure_jars
from harness.clusters.ports import PortAllocator
from harness.clusters.process_cluster import ProcessCluster
from harness.clusters.proxies import LinkProxies
from harness.clusters.secured.access import MadeUpAccess
from harness.clusters.secured.listeners import listener_of
from harness.errors import EnvironmentFault
from tests.json_lines import read_jsonl
from tests.patience import run_command

TIMEOUT_S: Final = 60.0
START_S: Final = 240.0  # of three nodes, on a busy host
pytestmark = [pytest.mark.slow]

OF_CLIENTS: Final = ("EXTERNAL", "DIRECT")
BETWEEN: Final = ("INTERNAL", "CONTROLLER")
API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 7, -1)
METADATA: Final = struct.pack(">ihhihi", 14, 3, 1, 7, -1, 0)  # of no topics; a controller does not know it, and closes
KINDS: Final = ["reference", pytest.param("kafka", marks=(pytest.mark.kafka, pytest.mark.long))]


class Secured(NamedTuple):
    cluster: ProcessCluster
    access: MadeUpAccess

    def places(self, *listeners: str) -> Iterator[tuple[str, Address]]:
        for node in self.cluster.layout.nodes:
            for name in listeners:
                yield f"{name} of broker {node.broker_id}", listener_of(node, name)

    def links(self, kind: str) -> Iterator[tuple[str, Address]]:
        yield from ((link.name, link.listen) for link in self.cluster.layout.links if link.kind == kind)

    @property
    def between(self) -> list[tuple[str, Address]]:
        return [*self.places(*BETWEEN), *self.links("internal"), *self.links("controller")]


def running(kind: str, directory: Path, protocol: str, mechanism: str) -> Iterator[Secured]:
    if kind == "kafka":
        try:
            ensure_jars()
        except EnvironmentFault as error:
            pytest.skip(str(error))
    wanted = ClusterSecurity(protocol=protocol, mechanism=mechanism)
    key = ClusterKey(engine=kind, proxied=True, brokers=3, settings=(), security=wanted)  # type: ignore[arg-type]
    ports = PortAllocator()
    access = MadeUpAccess(directory, wanted)
    proxies = LinkProxies("embedded", directory=directory / "proxies", lease=None, seed=1, ports=ports)
    cluster = ProcessCluster(access.applied(build_layout(key, directory, ports)), proxies=proxies, access=access)
    try:
        cluster.start()
        assert cluster.wait_healthy(None, timeout_s=START_S)
        yield Secured(cluster, access)
    finally:
        cluster.stop()
    assert not access.directory.exists()


@pytest.fixture(scope="module", params=KINDS)
def over_tls(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    yield from running(request.param, tmp_path_factory.mktemp("tls"), "sasl_ssl", "SCRAM-SHA-512")


@pytest.fixture(scope="module", params=KINDS)
def in_plain_text(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    yield from running(request.param, tmp_path_factory.mktemp("plain"), "sasl_plaintext", "SCRAM-SHA-256")


def answer(
    address: Address, request: bytes, tls: ssl.SSLContext | None = None, who: Credentials | None = None
) -> bytes:
    """The first bytes of it; none if the connection is ended, at whatever step."""
    try:
        with socket.create_connection((address.host, address.port), timeout=TIMEOUT_S) as plain:
            if tls is None:
                if who is not None:
                    log_in(plain, who)
                plain.sendall(request)
                return plain.recv(8)
            with tls.wrap_socket(plain) as secured:
                secured.sendall(request)
                return secured.recv(8)
    except (ssl.SSLError, ConnectionError):
        return b""


def is_kafka(answered: bytes) -> bool:
    """A size, and the request's correlation id."""
    return len(answered) == 8 and answered[4:] == struct.pack(">i", 7)


def showing(certificate: Path | None) -> ssl.SSLContext:
    """It takes any certificate, so that only the other side decides."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


def test_no_listener_answers_plain_text(over_tls: Secured) -> None:
    for place, address in [*over_tls.places(*OF_CLIENTS), *over_tls.links("client"), *over_tls.between]:
        assert not is_kafka(answer(address, API_VERSIONS)), place


def test_brokers_and_controllers_answer_nobody_without_a_certificate_of_a_broker(over_tls: Secured) -> None:
    authority = over_tls.access.authority
    assert authority is not None
    strangers = {
        "nobody": showing(None),
        "a client of the same authority": showing(authority.issue("load", file_name="stranger").store),
        "a broker of the next authority": showing(over_tls.access.next_authority.issue("broker-1").store),  # type: ignore[union-attr]
    }
    broker = showing(Path(over_tls.access.broker_security.certificate_file))
    for place, address in over_tls.between:
        assert is_kafka(answer(address, API_VERSIONS, broker)), f"a broker at {place}"
        for who, context in strangers.items():
            assert not is_kafka(answer(address, API_VERSIONS, context)), f"{who} at {place}"


def test_what_brokers_show_one_another_is_of_the_runs_authority_and_of_that_broker(over_tls: Secured) -> None:
    security = over_tls.access.broker_security
    assert security.context is not None
    for node in over_tls.cluster.layout.nodes:
        for listener in BETWEEN:
            address = listener_of(node, listener)
            for name in (address.host, f"broker-{node.broker_id}"):
                with (
                    socket.create_connection((address.host, address.port), timeout=TIMEOUT_S) as plain,
                    security.context.wrap_socket(plain, server_hostname=name) as opened,
                ):
                    subject = opened.getpeercert()["subject"]  # type: ignore[index]
                assert subject == ((("commonName", f"broker-{node.broker_id}"),),)


def test_probes_of_faults_are_answered_on_every_link(over_tls: Secured) -> None:
    answered_on_every_link(over_tls)


def answered_on_every_link(secured: Secured) -> None:
    proxies = secured.cluster.link_proxies()
    for link in secured.cluster.layout.links:
        door = Door(address=str(link.listen), access=proxies.probe_access(link.name))
        assert probe_link(door, timeout_ms=60_000).outcome == "answered", link.name


@pytest.mark.long
def test_without_tls_brokers_and_controllers_answer_who_has_their_password(in_plain_text: Secured) -> None:
    answered_on_every_link(in_plain_text)
    right = in_plain_text.access.broker_security.credentials
    assert right is not None
    guessed = Credentials(mechanism="PLAIN", username=right.username, password="guessed")
    load = Credentials(mechanism="PLAIN", username="load", password=in_plain_text.access.passwords["load"])
    for place, address in in_plain_text.between:
        assert is_kafka(answer(address, API_VERSIONS, who=right)), place
        for who in (None, guessed, load):
            assert not is_kafka(answer(address, METADATA, who=who)), f"{who} at {place}"


SCENARIO: Final = """
name: between
title: The link between a follower and the leader is slow, and then cut
damage: none
source: written for this test
topic: {partitions: 1, replication_factor: 3, config: {min.insync.replicas: 2}}
properties: {acks: all, enable.idempotence: true, linger.ms: 5, delivery.timeout.ms: 60000, request.timeout.ms: 20000}
workload: {rate_per_s: 200, record_size_bytes: 200, producers: 1, warmup_ms: 500, measure_ms: 60000, drain_ms: 30000}
until_done: true
timeline:
  - {id: slow, at: 500ms, fault: latency, target: "follower:0->leader", with: {latency_ms: 1500}}
  - {id: fast, heal: slow}
  - {id: cut, fault: link_cut, target: "any:follower:0<->leader"}
  - {id: some, when: acked grew by 200, within: 60s}
  - {id: mend, heal: cut}
cases:
  only: {title: "acks=all"}
"""
SUITE: Final = """
name: between
workload: {rate_per_s: 200, record_size_bytes: 200, warmup_ms: 200, measure_ms: 700, drain_ms: 3000}
cluster: {security: sasl_ssl, sasl: {mechanism: SCRAM-SHA-512}, ssl: {client: {auth: required}}}
"""


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_cell_with_faults_between_brokers_runs_on_secured_listeners(kind: str, tmp_path: Path) -> None:
    (tmp_path / "between-scenario.yaml").write_text(SCENARIO)
    (tmp_path / "between.yaml").write_text(SUITE + f"chaos: [{{scenario: {tmp_path / 'between-scenario.yaml'}}}]\n")
    command = [sys.executable, "-m", "harness", "run", str(tmp_path / "between.yaml"), "--cluster", kind]
    done = run_command(
        [*command, "--run-dir", str(tmp_path / "run"), "--no-report", "--no-certify", "--toxiproxy", "embedded"]
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    (cell,) = (tmp_path / "run").rglob("cell.json")
    told = json.loads(cell.read_text())
    assert told["security"] == "sasl_ssl SCRAM-SHA-512 with client certificates"
    (faults,) = (tmp_path / "run").rglob("faults.jsonl")
    proved = [line["id"] for line in read_jsonl(faults) if line["phase"] == "proved"]
    assert proved == ["slow", "cut", "some"]
