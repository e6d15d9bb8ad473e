"""cluster.security of a cluster of ours: secured listeners, secrets in one private directory, refusals."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from broker.security.mapping_rules import NoRuleError, PrincipalMapper
from harness.cluster_security import ClusterSecurity, security_of_client
from harness.clusters.base import ClusterLayout
from harness.clusters.cluster_id import new_cluster_id
from harness.clusters.kafka.layout import kafka_layout
from harness.clusters.layout_reference import reference_layout
from harness.clusters.ports import PortAllocator
from harness.clusters.secured.access import MadeUpAccess, check_security
from harness.clusters.secured.authority import openssl
from harness.errors import UsageError
from harness.kafka_releases import DEFAULT
from harness.plan import build_plan
from harness.suite import Suite
from harness.sweep_plan import security_of
from runlog.files.redaction import secrets_in


def reference(tmp_path: Path) -> ClusterLayout:
    return reference_layout(
        tmp_path,
        brokers=2,
        settings={},
        proxied=True,
        journal_appends=True,
        ports=PortAllocator(),
        cluster_id=new_cluster_id(),
    )


def kafka(tmp_path: Path) -> ClusterLayout:
    return kafka_layout(
        tmp_path, brokers=2, settings={}, proxied=True, java="java", jars={DEFAULT: Path("/jars")},
        ports=PortAllocator(), cluster_id=new_cluster_id(),
    )  # fmt: skip


SECURED = [
    ("ssl", ""), ("sasl_ssl", "OAUTHBEARER"),
    ("sasl_plaintext", "PLAIN"), ("sasl_ssl", "PLAIN"), ("sasl_ssl", "SCRAM-SHA-512"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("make", [reference, kafka])
@pytest.mark.parametrize(("protocol", "mechanism"), SECURED)
def test_clients_meet_a_secured_listener_and_no_secret_leaves_its_directory(
    make, protocol: str, mechanism: str, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    plain = make(tmp_path)
    access = MadeUpAccess(tmp_path, ClusterSecurity(protocol=protocol, mechanism=mechanism))
    layout = access.applied(plain)
    properties = layout.client_properties
    assert properties["security.protocol"] == protocol.upper()
    secrets = list(secrets_in([dict(properties)]))
    assert bool(secrets) == bool(mechanism)
    for node in layout.nodes:
        by_name = dict(
            each.split(":") for each in node.properties["listener.security.protocol.map"].split(",")
        )  # fmt: skip
        between = "SSL" if protocol.endswith("ssl") else "SASL_PLAINTEXT"
        assert by_name == {
            "EXTERNAL": protocol.upper(), "DIRECT": protocol.upper(), "INTERNAL": between, "CONTROLLER": between,
        }  # fmt: skip
        assert node.direct.security is access.security
        words = [*node.command, *(word for command in node.prepare_commands for word in command)]
        shown = "".join([*node.files.values(), *words, *node.properties.values()])
        assert not any(secret in shown for secret in secrets)
        read = Path(node.command[-1])
        assert read.parent == access.directory
        assert read.stat().st_mode & 0o777 == 0o600
        if mechanism == "PLAIN":
            assert {"user_harness=", "user_load="} <= set(re.findall(r"user_\w+=", read.read_text()))
        if mechanism.startswith("SCRAM") and node.prepare_commands:
            (command,) = node.prepare_commands
            assert command[1].startswith("@")
            for user in ("harness", "load"):
                assert f"{mechanism}=[name={user}," in Path(command[1][1:]).read_text()
    for link in layout.links:
        is_tls = protocol.endswith("ssl")
        ends = link.kind == "client" and is_tls
        assert (link.listen_tls is not None, link.upstream_tls is not None) == (ends, ends)
        assert link.carries_tls is (is_tls and not ends)
    access.remove()
    assert not access.directory.exists()
    assert list(tmp_path.rglob("*.pem")) == []


@pytest.mark.slow
@pytest.mark.parametrize("make", [reference, kafka])
@pytest.mark.parametrize(("protocol", "mechanism"), [("ssl", ""), ("sasl_ssl", "PLAIN")])
def test_clients_have_certificates_of_their_own_where_they_must(
    make, protocol: str, mechanism: str, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    wanted = ClusterSecurity(protocol=protocol, mechanism=mechanism, is_mutual=True)
    access = MadeUpAccess(tmp_path, wanted)
    layout = access.applied(make(tmp_path))
    stores = [each.properties["ssl.keystore.location"] for each in (access.security, access.load_security)]
    assert [Path(each).name for each in stores] == ["harness.store.pem", "load.store.pem"]
    assert layout.client_properties["ssl.keystore.location"] == stores[1]
    assert Path(stores[1]).parent == access.directory
    for node in layout.nodes:
        for name in ("external", "direct"):
            assert node.properties[f"listener.name.{name}.ssl.client.auth"] == "required"
        assert node.properties["ssl.truststore.location"] == str(access.trusted)
        assert "PRIVATE KEY" not in "".join(node.files.values())
    for link in layout.links:
        if link.kind == "client":
            assert link.listen_tls is not None
            assert link.upstream_tls is not None
            assert link.listen_tls["client_ca_file"] == str(access.trusted)
            assert link.upstream_tls["certificate_file"] == stores[1]
    assert wanted.label == f"{protocol} {mechanism}".strip() + " with client certificates"
    assert security_of_client(layout.client_properties).label == wanted.label
    access.remove()
    assert list(tmp_path.rglob("*.pem")) == []


@pytest.mark.slow
@pytest.mark.parametrize("make", [reference, kafka])
@pytest.mark.parametrize(("protocol", "mechanism"), [("ssl", ""), ("sasl_ssl", "SCRAM-SHA-256")])
def test_brokers_and_controllers_show_certificates_that_no_client_has(
    make, protocol: str, mechanism: str, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    access = MadeUpAccess(tmp_path, ClusterSecurity(protocol=protocol, mechanism=mechanism))
    layout = access.applied(make(tmp_path))
    for node in layout.nodes:
        for name in ("internal", "controller"):
            of_listener = f"listener.name.{name}.ssl"
            assert node.properties[f"{of_listener}.client.auth"] == "required"
            store = Path(node.properties[f"{of_listener}.keystore.location"])
            assert store.name == f"between-broker-{node.broker_id}.store.pem"
            names = openssl("x509", "-in", str(store), "-noout", "-ext", "subjectAltName")
            assert f"IP Address:{node.direct.host}, DNS:broker-{node.broker_id}" in names, "as both kinds dial"
            trusted = Path(node.properties[f"{of_listener}.truststore.location"])
            assert trusted.read_text().count("BEGIN CERTIFICATE") == 1, "of the run's authority and of nobody else"
            mapper = PrincipalMapper(node.properties[f"{of_listener}.principal.mapping.rules"])
            assert {mapper.name_of(f"CN=broker-{node.broker_id}"), mapper.name_of("CN=broker")} == {"broker"}
            for stranger in ("CN=load", "CN=harness", "CN=proxies", "CN=broker-x"):
                with pytest.raises(NoRuleError):
                    mapper.name_of(stranger)
        assert not any("sasl.mechanism." in name for name in node.properties), "they need no password"
    access.remove()


@pytest.mark.parametrize("make", [reference, kafka])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_without_tls_brokers_and_controllers_have_a_password_of_their_own(make, mechanism: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    access = MadeUpAccess(tmp_path, ClusterSecurity(protocol="sasl_plaintext", mechanism=mechanism))
    layout = access.applied(make(tmp_path))
    own = access.broker_security.credentials
    assert own is not None
    assert (own.mechanism, own.username) == ("PLAIN", "broker")
    assert own.password not in access.passwords.values()
    for node in layout.nodes:
        assert node.properties["sasl.mechanism.inter.broker.protocol"] == "PLAIN"
        assert node.properties["sasl.mechanism.controller.protocol"] == "PLAIN"
        written = Path(node.command[-1]).read_text()
        for name in ("internal", "controller"):
            line = f"listener.name.{name}.plain.sasl.jaas.config"
            assert node.properties[line] == "(not shown)"
            assert (
                f'{line}=org.apache.kafka.common.security.plain.PlainLoginModule required username="broker"' in written
            )
            assert node.properties[f"listener.name.{name}.sasl.enabled.mechanisms"] == "PLAIN"
        assert node.properties["sasl.enabled.mechanisms"] == mechanism, "of the clients"
        assert own.password not in "".join([*node.files.values(), *node.properties.values(), *node.command])
    access.remove()


@pytest.mark.slow
@pytest.mark.parametrize("make", [reference, kafka])
def test_only_the_harness_and_the_brokers_may_do_everything(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    wanted = ClusterSecurity(protocol="sasl_ssl", mechanism="PLAIN", is_authorized=True)
    access = MadeUpAccess(tmp_path, wanted)
    for node in access.applied(make(tmp_path)).nodes:
        assert node.properties["super.users"] == "User:harness;User:broker"
    access.remove()


@pytest.mark.parametrize(
    ("protocol", "mechanism", "engine", "words"),
    [("ssl", "", "external", "--client-config FILE"), ("sasl_ssl", "PLAIN", "docker", "not for docker"),
     ("sasl_ssl", "SCRAM-SHA-256", "docker", "not for docker")],
)  # fmt: skip
def test_what_a_kind_of_cluster_cannot_do_is_refused(protocol: str, mechanism: str, engine: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_security(ClusterSecurity(protocol=protocol, mechanism=mechanism), engine)
    check_security(ClusterSecurity(), engine)


@pytest.mark.parametrize(
    ("properties", "label"),
    [({}, "plaintext"), ({"security.protocol": "SSL"}, "ssl"),
     ({"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256"}, "sasl_ssl SCRAM-SHA-256"),
     ({"security.protocol": "SASL_PLAINTEXT"}, "sasl_plaintext GSSAPI")],
)  # fmt: skip
def test_a_cell_tells_what_its_clients_spoke(properties: dict[str, str], label: str) -> None:
    assert security_of_client(properties).label == label


def suite(**sweep: object) -> Suite:
    return Suite.model_validate({
        "name": "s", "workload": {"rate_per_s": 100, "warmup_ms": 0, "measure_ms": 1000},
        "cluster": {"security": "sasl_plaintext"}, "sweep": {"baseline": {"acks": "all"}, **sweep},
    })  # fmt: skip


def test_security_is_a_setting_of_a_sweep_and_each_value_has_a_cluster_of_its_own_in_each_round() -> None:
    varied = {"cluster.security": ["plaintext", "ssl", "sasl_ssl"], "linger.ms": ["0", "50"]}
    cells = build_plan(suite(vary=varied, repetitions=2, design="grid"), lambda entry: (), seed=7, client="reference")
    assert len(cells) == 4 * 3 * 2  # with the baseline's own values
    for number in (1, 2):
        securities = [cell.security.label for cell in cells if cell.repetition == number]
        changes = sum(one != other for one, other in pairwise(securities))
        assert changes == 3, "one cluster for each, and not one for each cell"
        assert set(securities) == {"plaintext", "ssl", "sasl_plaintext PLAIN", "sasl_ssl PLAIN"}
    assert {cell.fork for cell in cells} == {1, 2}
    for cell in cells:
        assert cell.record.security == cell.security.label
        assert cell.record.factors["cluster.security"] == cell.security.protocol
        assert "cluster.security" not in cell.properties


@pytest.mark.parametrize(
    ("vary", "words"),
    [({"cluster.security": ["tls"]}, "cluster.security.*'tls'"), ({"cluster.brokers": ["3"]}, "no such key"),
     ({"cluster.sasl.mechanism": ["GSSAPI"]}, "mechanism.*'GSSAPI'")],
)  # fmt: skip
def test_other_values_and_other_parts_of_the_cluster_are_refused(vary: dict[str, list[str]], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        build_plan(suite(vary=vary), lambda entry: (), seed=1, client="reference")


def test_client_certificates_are_a_setting_of_a_suite_and_of_a_sweep() -> None:
    ssl = {"client": {"auth": "required"}}
    made = suite(vary={"cluster.ssl.client.auth": ["none", "required"], "cluster.security": ["ssl", "plaintext"]})
    labels = {cell.security.label for cell in build_plan(made, lambda entry: (), seed=1, client="reference")}
    assert labels == {"sasl_plaintext PLAIN", "ssl", "plaintext"}  # one at a time: the suite itself says sasl_plaintext
    both = suite(vary={"cluster.ssl.client.auth": ["required"], "cluster.security": ["ssl"]}, design="grid")
    assert "ssl with client certificates" in {
        cell.security.label for cell in build_plan(both, lambda entry: (), seed=1, client="reference")
    }
    whole = made.model_copy(update={"cluster": made.cluster.model_validate({"security": "ssl", "ssl": ssl})})
    assert security_of(whole).label == "ssl with client certificates"
    nowhere = made.model_copy(update={"cluster": made.cluster.model_validate({"ssl": ssl})})
    with pytest.raises(UsageError, match=r"cluster\.ssl\.client\.auth: required needs cluster\.security ssl"):
        security_of(nowhere)
