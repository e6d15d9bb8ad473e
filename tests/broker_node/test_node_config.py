"""Properties files: what is taken, what is warned of, what is refused and where."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from broker.node.settings.properties import ConfigError, load_config
from broker.node.settings.values import Address
from tests.patience import run_command

MINIMAL = """node.id=1
controller.quorum.voters=1@127.0.0.1:9093
listeners=EXTERNAL://127.0.0.1:9092,INTERNAL://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093
log.dirs=/nowhere
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "broker.properties"
    path.write_text(text)
    return path


def test_settings_are_read_by_their_kafka_names(tmp_path: Path) -> None:
    text = MINIMAL + "min.insync.replicas=2\nharness.routes.internal=2@127.0.0.1:7,3@127.0.0.1:8\n# a comment\n"
    config, warnings = load_config(written(tmp_path, text))
    assert warnings == []
    assert config.topics.min_insync_replicas == 2
    assert config.own.harness_routes_internal == {
        2: Address(host="127.0.0.1", port=7),
        3: Address(host="127.0.0.1", port=8),
    }
    assert set(config.listening.advertised_listeners) == {"EXTERNAL", "INTERNAL"}, (
        "the controller listener is never advertised"
    )


def test_advertised_listener_replaces_the_bound_one(tmp_path: Path) -> None:
    config, _ = load_config(written(tmp_path, MINIMAL + "advertised.listeners=EXTERNAL://127.0.0.1:7777\n"))
    assert config.listening.advertised_listeners["EXTERNAL"].port == 7777
    assert config.listening.listeners["EXTERNAL"].port == 9092
    assert config.listening.advertised_listeners["INTERNAL"].port == 9094


def test_unknown_key_is_warned_of_with_the_nearest_known_one(tmp_path: Path) -> None:
    path = written(tmp_path, MINIMAL + "min.insync.replica=2\n")
    config, warnings = load_config(path)
    expected = f"{path}:5: unknown key min.insync.replica, ignored; did you mean min.insync.replicas?"
    assert warnings == [expected]
    assert config.topics.min_insync_replicas == 1


def test_settings_of_kafka_without_effect_here_are_told_with_the_reason(tmp_path: Path) -> None:
    _, warnings = load_config(written(tmp_path, MINIMAL + "num.io.threads=8\n"))
    assert [warning.rpartition("properties:")[2] for warning in warnings] == [
        "5: num.io.threads has no effect: one event loop does all the work"
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("min.insync.replicas=two", ":5: min.insync.replicas: expected a whole number, got 'two'"),
        ("auto.create.topics.enable=yes", ":5: auto.create.topics.enable: expected true or false, got 'yes'"),
        ("harness.routes.internal=2:7", ":5: harness.routes.internal: expected ID@HOST:PORT, got '2:7'"),
        ("log.segment.bytes=-1", ":5: log.segment.bytes: expected a number of at least 0, got '-1'"),
        ("no equals sign", ":5: expected name=value, got no = after 'no'"),
        ("inter.broker.listener.name=INSIDE", ":5: inter.broker.listener.name: there is no listener INSIDE"),
        ("node.id=9", "node.id 9 is not among the voters"),
    ],
)
def test_wrong_value_names_file_and_line(tmp_path: Path, line: str, expected: str) -> None:
    path = written(tmp_path, MINIMAL + line + "\n")
    with pytest.raises(ConfigError) as raised:
        load_config(path)
    assert expected in str(raised.value)
    assert str(raised.value).startswith(f"{path}:")


def test_missing_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"log\.dirs is missing"):
        load_config(written(tmp_path, MINIMAL.replace("log.dirs=/nowhere\n", "")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "mutant", "message"),
    [
        (
            "broker.node",
            "vote_not_persisted",
            "harness.mutant=vote_not_persisted: start it by python -m",
        ),
        ("broker.mutants", "vote_not_persist", "no mutant 'vote_not_persist', nearest is 'vote_not_persisted'"),
        ("broker.mutants", "", "no mutant ''"),
    ],
)
def test_a_wrong_variant_starts_by_an_entry_of_its_own_or_not_at_all(
    tmp_path: Path, module: str, mutant: str, message: str
) -> None:
    path = written(tmp_path, MINIMAL + f"harness.mutant={mutant}\n")
    done = run_command([sys.executable, "-m", module, str(path)])
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.slow
def test_process_exits_with_2_and_the_message(tmp_path: Path) -> None:
    path = written(tmp_path, MINIMAL + "num.partitions=many\n")
    done = run_command([sys.executable, "-m", "broker.node", str(path)])
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"{path}:5: num.partitions: expected a whole number, got 'many'\n"


@pytest.mark.parametrize(
    ("lines", "directories", "metadata"),
    [
        ("log.dirs=/a, /b,/a", ("/a", "/b"), "/a"),
        ("log.dirs=/a,/b\nmetadata.log.dir=/b", ("/a", "/b"), "/b"),
        ("log.dirs=/a\nmetadata.log.dir=/m\nlog.dir=/ignored", ("/a",), "/m"),
        ("log.dir=/a", ("/a",), "/a"),
    ],
)
def test_log_directories(tmp_path: Path, lines: str, directories: tuple[str, ...], metadata: str) -> None:
    config, _ = load_config(written(tmp_path, MINIMAL.replace("log.dirs=/nowhere", lines)))
    assert config.storage.log_dirs == tuple(map(Path, directories))
    assert config.storage.metadata_directory == Path(metadata)
    assert config.described()["log.dirs"] == ",".join(directories)
