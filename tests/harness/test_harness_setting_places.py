"""A wrong setting is told with file, line, value and what is allowed, by `validate` and by every start of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.model import builtin_scenarios
from harness.cli.main import execute
from harness.errors import ExitCode, UsageError
from harness.scenarios import load_scenario, scenario_source
from harness.setting_places import check_scenario_settings, check_settings
from harness.settings_alone import placed_settings
from harness.suite import builtin_suites, find_source, load_suite
from harness.suite_source import parse_source
from tests.amount import some

SUITE = """name: mine
client: CLIENT
workload: {rate_per_s: 1000, record_size_bytes: 100, measure_ms: 6000}
properties:
  SETTING
sweep:
  baseline: {compression.type: none}
  vary:
    linger.ms: [0, 5]
"""


def _told(path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What validate says, after a run said the same and made no directory."""
    path.write_text(text)
    assert execute(["run", "--no-report", "--run-dir", str(path.with_suffix(".run")), str(path)]) == ExitCode.USAGE
    by_run = capsys.readouterr().err
    assert not path.with_suffix(".run").exists()
    assert execute(["validate", str(path)]) == ExitCode.USAGE
    by_validate = capsys.readouterr().err
    assert by_run == by_validate
    return by_validate


def test_mistakes_in_shape_and_in_settings_are_told_in_one_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    text = SUITE.replace("CLIENT", "reference").replace("SETTING", "linger: 5").replace("record_size_bytes", "size")
    said = _told(path, text.replace("compression.type: none", "acks: 2"), capsys)
    assert f"{path}:3: workload.size: no such key" in said
    assert f"{path}:5: client reference cannot set linger: " in said
    assert f"{path}:7: client reference cannot set acks: " in said


@pytest.mark.parametrize(
    "text",
    ["properties: 3", "sweep: [1]", "sweep: {vary: 3}", "sweep: {vary: {acks: all}}", "workload: {readers: [3]}",
     "workload: {readers: 3}", "cases: {a: 3}", "properties: {acks: [all]}", "client: [1]",
     "sweep: {vary: {acks: [{with: 3}]}}"],
)  # fmt: skip
def test_a_document_of_another_shape_is_a_sentence(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Traceback" not in _told(tmp_path / "mine.yaml", f"name: mine\n{text}\n", capsys)


@pytest.mark.parametrize("client", ["reference", "confluent", "java", "aiokafka", "kafka_python"])
@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("linger: 5", "linger.ms"),
        ("linger.ms: five", "linger.ms"),
        ("acks: 2", "expected one of all, -1, 0, 1, got '2'"),
        ("batch.size: 16KB", "expected a whole number, got '16KB'; it takes a number alone: 16384"),
        ("enable.idempotence: maybe", "expected true or false, got 'maybe'"),
    ],
)
def test_a_wrong_setting_has_its_line(
    client: str, setting: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    said = _told(path, SUITE.replace("CLIENT", client).replace("SETTING", setting), capsys)
    assert f"{path}:5: client {client} cannot set {setting.partition(':')[0]}: " in said
    assert told in said


@pytest.mark.parametrize("client", ["reference", "confluent", "java", "kafka_python"])
@pytest.mark.parametrize(
    "settings",
    ["{acks: 1, enable.idempotence: true}", "{max.in.flight.requests.per.connection: 6, enable.idempotence: true}"],
)
def test_settings_that_cannot_go_together_have_their_line(
    client: str, settings: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    text = SUITE.replace("CLIENT", client).replace("properties:\n  SETTING\n", f"properties: {settings}\n")
    said = _told(path, text, capsys)
    assert f"{path}:4: cell sweep-baseline and 1 more: client {client} cannot set " in said
    assert "idempotence" in said


def test_a_client_that_does_not_exist_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = _told(tmp_path / "mine.yaml", SUITE.replace("CLIENT", "confluen").replace("SETTING", "acks: all"), capsys)
    assert "mine.yaml:2: client 'confluen': no such client; did you mean 'confluent'?" in said


WRONG_PLACES = """name: mine
workload:
  rate_per_s: 1000
  measure_ms: 6000
  readers:
    - name: slow
      mode: group
      properties:
        fetch.min.bytes: 1KB
topic:
  config:
    min.insync.replicas: two
cluster:
  settings:
    log.flush.intervall.messages: 1
sweep:
  baseline: {acks: all}
  vary:
    linger.ms:
      - value: 0
        with:
          retry: 3
      - value: 1s
    batch.size: [1, x]
"""


def test_every_place_of_a_setting_is_looked_at() -> None:
    source = parse_source(WRONG_PLACES, "mine.yaml")
    with pytest.raises(UsageError, match="mine") as raised:
        check_settings(source, "reference", ())
    lines = str(raised.value).splitlines()
    assert sorted(int(line.split(":")[1]) for line in lines) == [9, 12, 15, 22, 23, 24]


@pytest.mark.parametrize("suite", builtin_suites())
def test_the_suites_that_come_along_have_right_settings(suite: str) -> None:
    source = find_source(suite)
    check_settings(source, load_suite(suite).client, ())
    assert list(placed_settings(source.data)), "a suite without one setting shows nothing"


@pytest.mark.parametrize("scenario", some(builtin_scenarios(), fast=15))
def test_the_scenarios_that_come_along_have_right_settings(scenario: str) -> None:
    check_scenario_settings(scenario_source(scenario), load_scenario(scenario))


def test_a_scenario_of_ones_own_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    text = scenario_source_text("leader-loss").replace('acks: "1"', 'acks: "3"', 1)
    path.write_text(text)
    assert execute(["chaos", str(path), "--no-report"]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert f"{path}:" in said
    assert "expected one of all, -1, 0, 1, got '3'" in said


def scenario_source_text(name: str) -> str:
    return (Path(__file__).parents[2] / "chaos" / "scenarios" / f"{name}.yaml").read_text()


@pytest.mark.parametrize(
    ("key", "ours"),
    [
        ("rate", "workload.rate_per_s"),
        ("duration", "workload.measure_ms"),
        ("messageSize", "workload.record_size_bytes"),
        ("producerRate", "workload.rate_per_s"),
        ("partitionsPerTopic", "topic.partitions"),
    ],
)
def test_a_key_of_another_tool_is_answered_with_ours(
    key: str, ours: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    for text in (f"name: a\n{key}: 5\nworkload: {{}}\n", f"name: a\nworkload:\n  {key}: 5\n"):
        path.write_text(text)
        assert execute(["validate", str(path)]) == ExitCode.USAGE
        assert f"no such key; here it is {ours}" in capsys.readouterr().err
