"""docs/reference/settings.md, the tables in the code and Apache Kafka's own documentation agree; nothing is silently
ignored."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from broker.controller.broker_configs import DYNAMIC_BROKER_CONFIGS
from broker.controller.group_configs import GROUP_SETTINGS
from broker.controller.topic_configs import TOPIC_SETTINGS, Effect, topic_config_problem
from broker.kafka_settings import NAMES_FILE, kafka_settings
from broker.node.settings.broker_settings import REFUSED, WITHOUT_EFFECT, support_of
from broker.node.settings.config import SETTINGS, NodeConfig
from broker.node.settings.properties import ConfigError, load_config, with_dynamic
from broker.node.settings.topic_config import parse_topic_config, topic_defaults
from broker.node.settings_page import CLASSES, PAGE, names_from_jars, page

ROOT = Path(__file__).parents[2]
JARS = Path(os.environ.get("HARNESS_CACHE_DIR", ROOT / ".cache")) / "kafka" / "libs"
MINIMAL = """\
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
listeners=INTERNAL://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
log.dirs=/tmp/unused
"""


def loaded(tmp_path: Path, more: str = "") -> tuple[NodeConfig, list[str]]:
    path = tmp_path / "server.properties"
    path.write_text(MINIMAL + more)
    return load_config(path)


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text() == page(), "run: python -m broker.node.settings_page"


def test_every_setting_of_kafka_has_an_answer() -> None:
    assert len(kafka_settings("broker")) > 300
    for name in kafka_settings("broker"):
        support = support_of(name)
        assert support is not None, name
        assert support.effect is Effect.HONOURED or support.note, f"{name}: say why"
    assert support_of("no.such.setting") is None
    assert set(WITHOUT_EFFECT) | set(REFUSED) <= set(kafka_settings("broker"))


def test_topic_settings_and_their_defaults_are_those_of_kafka(tmp_path: Path) -> None:
    kafkas = kafka_settings("topic")
    assert set(TOPIC_SETTINGS) == set(kafkas)
    effective = topic_defaults(loaded(tmp_path)[0].topics)
    for name, setting in TOPIC_SETTINGS.items():
        assert setting.default == kafkas[name].default, name
        assert effective[name] == setting.default, name
        assert topic_config_problem(name, setting.default) is None, name


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.skipif(not any(JARS.glob("kafka_2*.jar")), reason="no Kafka jars: make setup-dev")
@pytest.mark.skipif(shutil.which("java") is None, reason="no Java")
def test_the_names_are_those_that_kafka_prints() -> None:
    assert names_from_jars(JARS, CLASSES) == NAMES_FILE.read_text(), (
        "run: python -m broker.node.settings_page --jars DIR"
    )


OTHER_VALUES = {
    "cleanup.policy": "compact",
    "compression.type": "zstd",
    "message.timestamp.type": "LogAppendTime",
    "min.cleanable.dirty.ratio": "0.1",
    "retention.bytes": "5000",
}
# Acted upon elsewhere: by the controller at an election; levels only with their codec.
ELSEWHERE = {"unclean.leader.election.enable"}


@pytest.mark.parametrize(
    "name", sorted(n for n, s in TOPIC_SETTINGS.items() if s.effect is Effect.HONOURED and n not in ELSEWHERE)
)
def test_an_honoured_topic_setting_changes_what_the_broker_acts_on(name: str, tmp_path: Path) -> None:
    values = topic_defaults(loaded(tmp_path)[0].topics)
    codec = re.fullmatch(r"compression\.(\w+)\.level", name)
    if codec:
        values["compression.type"] = codec[1]
    other = OTHER_VALUES.get(name, "4097" if name == "segment.bytes" else "7")
    assert topic_config_problem(name, other) is None
    assert parse_topic_config({**values, name: other}) != parse_topic_config(values)


@pytest.mark.thorough
def test_every_honoured_field_is_read_somewhere() -> None:
    """By its name, or as the default of a topic's or a group's setting."""
    settings = ROOT / "broker" / "node" / "settings"
    owners = [settings / "config.py", settings / "properties.py", *(settings / "sections").glob("*.py")]
    sources = [
        path for path in (ROOT / "broker").rglob("*.py") if path not in owners and path.name != "settings_page.py"
    ]
    text = "\n".join(path.read_text() for path in sources)
    by_topic = {setting.broker_key for setting in TOPIC_SETTINGS.values()}
    # The controller gets all that are the default of a group's setting, or a bound of one.
    by_group = {key for each in GROUP_SETTINGS.values() for key in (each.broker_key, each.low_key, each.high_key)}
    own = "\n".join(path.read_text() for path in owners)
    # Once over the text: a search for each of the fields would read it some hundred times.
    in_text, in_own = (Counter(re.findall(r"\w+", each)) for each in (text, own))
    for key, setting in SETTINGS.items():
        support, name = support_of(key), setting.field.name
        assert support is not None
        if support.effect is not Effect.HONOURED or key in by_topic | by_group:
            continue
        # Where settings are read: the field, and at least one place that acts on it.
        uses = in_text[name] + max(0, in_own[name] - 1)
        uses += text.count(f'"{key}"')  # those that a listener may have of its own
        assert uses, f"{name} is read nowhere: honoured?"


_TLS = "listener.security.protocol.map=INTERNAL:SSL,CONTROLLER:PLAINTEXT\n"


def test_what_has_no_effect_is_told_and_what_is_refused_fails(tmp_path: Path) -> None:
    _, warnings = loaded(tmp_path, "num.io.threads=8\ngroup.share.assignors=simple\nnode.idd=3\n")
    assert [warning.partition("server.properties:")[2] for warning in warnings] == [
        "5: num.io.threads has no effect: one event loop does all the work",
        "6: group.share.assignors has no effect: there is the assignor simple",
        "7: unknown key node.idd, ignored; did you mean node.id?",
    ]
    for line, part in (
        (f"{_TLS}ssl.keystore.location=x\nssl.keystore.password=x", "ssl.key.password is that of the key"),
        ("authorizer.class.name=org.example.A", "other Java classes cannot be loaded"),
        ("super.users=admin", "expected TYPE:NAME"),
        ("remote.log.storage.system.enable=true", "tiered storage"),
        ("process.roles=broker", "expected broker,controller"),
        ("listener.security.protocol.map=INTERNAL:TLS,CONTROLLER:PLAINTEXT", "expected NAME:PROTOCOL"),
        ("listeners=INTERNAL://0.0.0.0:9092,CONTROLLER://127.0.0.1:9093", "harness.allow.remote=true"),
    ):
        with pytest.raises(ConfigError, match=r"server\.properties:\d+: .*") as caught:
            loaded(tmp_path, f"{line}\n")
        assert part in str(caught.value)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_refused_setting_with_its_default_is_fine(name: str, tmp_path: Path) -> None:
    loaded(tmp_path, f"{name}={kafka_settings('broker')[name].default}\n")
    with pytest.raises(ConfigError, match=re.escape(name)):
        loaded(tmp_path, f"{name}=something-else\n")


def test_coarser_names_count_where_the_finer_ones_are_absent(tmp_path: Path) -> None:
    assert loaded(tmp_path, "log.retention.hours=2\n")[0].topics.log_retention_ms == 7_200_000
    assert loaded(tmp_path, "log.retention.hours=2\nlog.retention.minutes=3\n")[0].topics.log_retention_ms == 180_000
    assert loaded(tmp_path, "log.retention.hours=2\nlog.retention.ms=5\n")[0].topics.log_retention_ms == 5
    assert loaded(tmp_path, "log.roll.hours=1\n")[0].topics.log_roll_ms == 3_600_000


def test_settings_that_change_at_run_time_are_fields_that_change(tmp_path: Path) -> None:
    config, _ = loaded(tmp_path)
    assert set(DYNAMIC_BROKER_CONFIGS) <= set(SETTINGS)
    assert with_dynamic(config, {"log.retention.ms": "5", "max.connections": "7"}).topics.log_retention_ms == 5
    assert with_dynamic(config, {}) is config
