"""A load host sends its clients, and so its password, only to brokers that its operator has named."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from broker.wire.addresses import AddressError
from harness.cli.main import execute
from harness.errors import ExitCode
from tests.workloads.test_workloads_hosts_wire import share_plan
from workloads.hosts import wire
from workloads.hosts.keys import write_keys
from workloads.hosts.may_connect import parse_may_connect, refusal

PERMITTED = parse_may_connect("kafka-1.example:9092, Kafka-2.example:9092,[::1]:9092")


@pytest.mark.parametrize(
    "bootstrap_servers",
    ["kafka-1.example:9092", "KAFKA-1.EXAMPLE:9092", "kafka-2.example:9092,kafka-1.example:9092", "[::1]:9092"],
)
def test_brokers_that_are_named_are_connected_to(bootstrap_servers: str) -> None:
    assert refusal("load-1", bootstrap_servers, PERMITTED) == ""


@pytest.mark.parametrize(
    ("bootstrap_servers", "words"),
    [
        ("evil.example:9092", "load host load-1 may not connect to evil.example:9092: its --may-connect names kafka-1"),
        ("kafka-1.example:9092,evil.example:9092", "may not connect to evil.example:9092:"),
        ("kafka-1.example:9093", "may not connect to kafka-1.example:9093"),
        ("kafka-1.example.evil:9092", "may not connect to kafka-1.example.evil:9092"),
        ("kafka-1.example", "expected host:port"),
        ("", "expected host:port"),
    ],
)
def test_others_are_refused_by_name(bootstrap_servers: str, words: str) -> None:
    assert words in refusal("load-1", bootstrap_servers, PERMITTED)


@pytest.mark.parametrize("text", ["", "kafka", "kafka:0", "kafka:99999", ":9092", "a:1,,b:2"])
def test_a_permit_that_names_no_address_is_refused(text: str) -> None:
    with pytest.raises(AddressError):
        parse_may_connect(text)


@pytest.mark.parametrize(
    "name", ["bootstrap.servers", "bootstrap_servers", "bootstrap.controllers", "metadata.broker.list"]
)
def test_no_setting_of_a_plan_names_other_brokers(name: str) -> None:
    with pytest.raises(ValidationError, match="no setting"):
        wire.SharePlan.model_validate(share_plan(properties={name: "evil.example:9092"}))


def test_credentials_need_a_permit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, key = write_keys(tmp_path / "keys")
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SASL_SSL\n")
    command = ["worker", "--master", "127.0.0.1:1", "--key", str(key), "--client-config", str(config)]
    assert execute(command) == ExitCode.USAGE
    assert "--client-config needs --may-connect HOST:PORT" in " ".join(capsys.readouterr().err.split())
    assert execute([*command, "--may-connect", "kafka"]) == ExitCode.USAGE
    assert "--may-connect: expected host:port, got 'kafka'" in " ".join(capsys.readouterr().err.split())
