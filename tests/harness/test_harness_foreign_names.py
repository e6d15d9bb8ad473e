"""Who brings a word of another tool is told ours. The words are those of docs/start/coming-from.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chaos.faults import FAULTS
from chaos.step import Step
from harness.cli.main import execute
from harness.errors import ExitCode, UsageError
from harness.foreign_names import ours_for, ours_for_option
from harness.suite_source import parse_source
from tests.harness.test_harness_setting_places import SUITE

PAGE = (Path(__file__).resolve().parents[2] / "docs/start/coming-from.md").read_text()
_WORD = re.compile(r"`([^`]+)`")


def rows(section: str) -> list[tuple[list[str], str]]:
    """The words in code of the left column, and the right column."""
    text = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ", 1) for line in text.splitlines() if line.startswith("| ")]
    return [(_WORD.findall(left), right) for left, right in lines]


BENCHMARK = rows("OpenMessaging Benchmark and kafka-producer-perf-test")
KEYS = [(word, right) for words, right in BENCHMARK for word in words if re.fullmatch("[a-zA-Z]+", word)]
OPTIONS = [(word, right) for words, right in [*BENCHMARK, *rows("Locust")] for word in words if word.startswith("--")]


def test_the_page_has_its_words() -> None:
    assert {"topics", "consumerBacklogSizeGB", "messageSize"} <= {key for key, _ in KEYS}
    assert {"--throughput -1", "--record-size", "--users", "--run-time"} <= {option for option, _ in OPTIONS}


@pytest.mark.parametrize(("key", "right"), KEYS)
def test_each_key_of_a_benchmark_is_told_as_the_page_tells_it(key: str, right: str) -> None:
    ours = re.split(r"[.\s\[:]+", ours_for(key))
    assert set(ours) & set(re.split(r"[.`\s,]+", right)) - {"a", "of", "workload", "with"}, (ours_for(key), right)


OF_LOCUST_ALONE = {"--processes", "--worker", "--master", "--csv", "--html"}
WORDS = sorted({word.split()[0] for word, _ in OPTIONS} - OF_LOCUST_ALONE)


@pytest.mark.parametrize("option", WORDS)
def test_each_option_is_known(option: str) -> None:
    assert ours_for_option(option)


def test_a_foreign_option_is_told_beside_the_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["bench", "--record-size", "100"]) == ExitCode.USAGE
    assert "Here it is --size of `harness bench`" in capsys.readouterr().err


def test_settings_of_a_driver_are_told_where_they_belong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "driver.yaml"
    path.write_text("name: x\ntopics: 1\ncommonConfig: |\n  bootstrap.servers=a:1\n")
    assert execute(["validate", str(path)]) == ExitCode.USAGE
    said = " ".join(capsys.readouterr().err.split())
    assert f"{path}:2: topics: no such key; here it is workload.topics" in said
    assert "commonConfig: no such key; here it is --bootstrap-server and --client-config FILE" in said


@pytest.mark.parametrize(
    ("toxic", "fault"),
    [(words[0], _WORD.findall(right)[0]) for words, right in rows("Toxiproxy") if words and len(words) == 1
     and words[0] in ("timeout", "reset_peer", "limit_data")],
)  # fmt: skip
def test_a_toxic_is_told_as_the_fault_that_does_it(toxic: str, fault: str) -> None:
    assert fault in FAULTS
    with pytest.raises(ValueError, match=f"toxic of that name is the fault '{fault}' here"):
        Step.model_validate({"id": "a", "at": "1s", "fault": toxic, "target": "client->leader", "for": "1s"})


def test_the_toxics_that_are_faults_by_the_same_name_are_taken() -> None:
    assert {"latency", "bandwidth"} <= set(FAULTS)


def test_a_locust_file_is_told_as_such() -> None:
    with pytest.raises(UsageError, match=r"Python file, .*workload.locust.file=locustfile.py.*`locust -f` runs it"):
        parse_source("from locust import HttpUser\n", "locustfile.py")


@pytest.mark.parametrize(
    ("name", "kafkas"),
    [
        ("spring.kafka.producer.batch-size", "batch.size"),
        ("spring.kafka.producer.properties.linger.ms", "linger.ms"),
        ("spring.kafka.properties.request.timeout.ms", "request.timeout.ms"),
        ("spring.kafka.consumer.auto-offset-reset", "auto.offset.reset"),
    ],
)
def test_a_name_of_spring_is_told_as_kafkas(name: str, kafkas: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["bench", f"{name}=1", "--client", "confluent", "--dry-run"]) == ExitCode.USAGE
    assert f"{name} is Spring's name; here it is Kafka's own: {kafkas}" in " ".join(capsys.readouterr().err.split())


def test_a_file_of_spring_is_told_where_its_settings_belong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "application.yml"
    path.write_text("spring:\n  kafka:\n    producer:\n      acks: all\n")
    assert execute(["validate", str(path)]) == ExitCode.USAGE
    assert "spring: no such key; here it is properties, in Kafka's names" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("word", "ours"),
    [
        ("confluent-kafka", "confluent"),
        ("kafka-python", "kafka_python"),
        ("kafka-clients", "java"),
    ],
)
def test_a_library_is_told_as_the_client_that_uses_it(
    word: str, ours: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["chaos", "leader-loss", "--client", word, "--dry-run"]) == ExitCode.USAGE
    assert f"client {word!r}: no such client; here it is {ours}" in capsys.readouterr().err
    path = tmp_path / "mine.yaml"
    path.write_text(SUITE.replace("CLIENT", word).replace("SETTING", "linger.ms: 5"))
    assert execute(["validate", str(path)]) == ExitCode.USAGE
    said = " ".join(capsys.readouterr().err.split())
    assert f"mine.yaml:2: client {word!r}: no such client; here it is {ours}" in said
