"""Settings of producer and consumer: every one of Kafka's has an answer, and the code does what the answer says."""

from __future__ import annotations

import logging
import os
import re
import shutil
from pathlib import Path

import pytest

from broker.client.client_settings import (
    HONOURED,
    NAMES_FILE,
    REFUSED,
    REFUSED_,
    SCOPES,
    WITHOUT,
    WITHOUT_EFFECT,
    honoured,
    kafka_client_settings,
    screen,
    support_of,
)
from broker.client.core.config import as_properties, parse_consumer, parse_producer
from broker.client.core.security_config import TOKEN_HANDLER, SecurityConfig
from broker.client.core.settings import as_properties as properties_of
from broker.client.core.settings import settings_of
from broker.door.clients import ConfigurationError
from broker.node.settings_page import CLIENT_CLASSES, names_from_jars

ROOT = Path(__file__).parents[2]
JARS = Path(os.environ.get("HARNESS_CACHE_DIR", ROOT / ".cache")) / "kafka" / "libs"
BOOT = {"bootstrap.servers": "127.0.0.1:9092"}
BOTH = pytest.mark.parametrize("scope", ["producer", "consumer"])
# Where our text of the same default reads differently.
SAME_BY_OTHER_WORDS = {
    "bootstrap.servers", "group.id", "group.instance.id", "group.remote.assignor", "partition.assignment.strategy",
    "partitioner.class", "transactional.id",
}  # fmt: skip


@BOTH
def test_every_setting_of_kafka_has_an_answer_and_no_answer_is_left_over(scope: str) -> None:
    names = kafka_client_settings(scope)
    assert len(names) > 90
    for name in names:
        support = support_of(scope, name)
        assert support is not None, name
        assert support[0] == HONOURED or support[1], f"{name}: say why"
    assert honoured(scope) <= set(names)
    assert support_of(scope, "no.such.setting") is None
    everywhere = {name for each in SCOPES for name in kafka_client_settings(each)}
    assert set(WITHOUT_EFFECT) | set(REFUSED) <= everywhere


@BOTH
def test_defaults_are_those_of_kafka(scope: str) -> None:
    parse = parse_producer if scope == "producer" else parse_consumer
    ours = as_properties(parse({**BOOT, "group.id": "g"} if scope == "consumer" else BOOT))
    security = {name: value or "null" for name, value in properties_of(SecurityConfig()).items()}
    ours = {**security, **ours, "sasl.login.connect.timeout.ms": "null", "sasl.login.read.timeout.ms": "null"}
    for name in honoured(scope) - SAME_BY_OTHER_WORDS - {TOKEN_HANDLER}:
        assert ours[name] == kafka_client_settings(scope)[name].default, name


@BOTH
def test_what_has_no_effect_is_told(scope: str, caplog: pytest.LogCaptureFixture) -> None:
    for name in kafka_client_settings(scope):
        if support_of(scope, name) != (WITHOUT, WITHOUT_EFFECT.get(name)):
            continue
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert screen(scope, {**BOOT, name: "7"}) == BOOT
        assert f"name={name} why=" in caplog.text


@BOTH
def test_what_is_refused_fails_unless_it_asks_for_nothing(scope: str) -> None:
    refused = [name for name in kafka_client_settings(scope) if support_of(scope, name)[0] == REFUSED_]  # type: ignore[index]
    assert len(refused) > 25
    for name in refused:
        assert screen(scope, {**BOOT, name: kafka_client_settings(scope)[name].default}) == BOOT
        with pytest.raises(ConfigurationError, match=re.escape(f"{name}: ")):
            screen(scope, {**BOOT, name: "something-else"})


@BOTH
def test_every_honoured_field_is_read_somewhere(scope: str) -> None:
    paths = [path for path in (ROOT / "broker" / "client").rglob("*.py") if path.name != "config.py"]
    text = "\n".join(path.read_text() for path in paths)
    core = ROOT / "broker" / "client" / "core"
    own = (core / "config.py").read_text() + (core / "security_config.py").read_text()
    for field in (*settings_of(SCOPES[scope]), *settings_of(SecurityConfig)):
        uses = len(re.findall(rf"config\.{field.name}\b", text)) + len(re.findall(rf"\.{field.name}\b", own))
        assert uses, f"{field.name} is read nowhere: honoured?"


def test_each_protocol_of_groups_has_settings_of_its_own() -> None:
    group = {**BOOT, "group.id": "g"}
    for properties, part in (
        ({**BOOT, "enable.auto.commit": "true"}, "needs a group.id"),
        ({**BOOT, "group.instance.id": "i"}, "needs a group.id"),
        ({**group, "group.remote.assignor": "uniform"}, "needs group.protocol=consumer"),
        ({**group, "group.protocol": "consumer", "session.timeout.ms": "9000"}, "the broker decides"),
        ({**group, "heartbeat.interval.ms": "45000"}, "must be below session.timeout.ms"),
        ({**group, "partition.assignment.strategy": "roundrobbin"}, "nearest is 'roundrobin'"),
        ({**group, "auto.offset.reset": "by_duration:1h"}, "by_duration:PT1H"),
    ):
        with pytest.raises(ConfigurationError, match=re.escape(part)):
            parse_consumer(properties)
    assert parse_consumer(BOOT).enable_auto_commit is False
    assert parse_consumer(group).enable_auto_commit is True
    assert parse_consumer({**BOOT, "auto.offset.reset": "by_duration:P1DT2H3M4.5S"}).reset_duration_ms == 93_784_500


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.skipif(not any(JARS.glob("kafka_2*.jar")), reason="no Kafka jars: make setup-dev")
@pytest.mark.skipif(shutil.which("java") is None, reason="no Java")
def test_the_names_are_those_that_kafka_prints() -> None:
    printed = names_from_jars(JARS, CLIENT_CLASSES)
    assert printed == NAMES_FILE.read_text(), "run: python -m broker.node.settings_page --jars DIR"
