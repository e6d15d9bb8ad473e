"""A misspelt setting of a topic or a broker ends a run before it begins; every ready suite and scenario passes."""

from __future__ import annotations

import pytest

from chaos.model import builtin_scenarios
from harness.cli.main import execute
from harness.scenarios import load_scenario
from harness.suite import builtin_suites, load_suite
from harness.unknown_settings import settings_problem

SAID = [
    ("broker", "num.partition=3", "Kafka has no broker setting 'num.partition'; did you mean 'num.partitions'?"),
    ("topic", "retention.mss=3", "Kafka has no topic setting 'retention.mss'; did you mean 'retention.ms'?"),
    ("topic", "qqq=3", "Kafka has no topic setting 'qqq'; docs/reference/settings.md has them all"),
    ("broker", "num.partitions=abc", "broker setting 'num.partitions': expected int, got 'abc'"),
    (
        "broker",
        "auto.create.topics.enable=yes",
        "broker setting 'auto.create.topics.enable': expected boolean, got 'yes'",
    ),
    ("broker", "num.partitions=3", ""),
    ("broker", "harness.journal.appends=true", ""),
]


@pytest.mark.parametrize(("scope", "setting", "said"), SAID)
def test_what_is_said(scope: str, setting: str, said: str) -> None:
    name, _, value = setting.partition("=")
    assert settings_problem(scope, {name: value}) == said


@pytest.mark.thorough
def test_no_ready_suite_and_no_scenario_has_a_wrong_one() -> None:
    for name in builtin_suites():
        suite = load_suite(name)
        assert settings_problem("topic", suite.topic.config) == "", name
        assert settings_problem("broker", suite.cluster.settings) == "", name
    for name in builtin_scenarios():
        scenario = load_scenario(name)
        for case in scenario.cases:
            assert settings_problem("topic", scenario.topic_config_of(case)) == "", (name, case)
            assert settings_problem("broker", scenario.broker_settings_of(case)) == "", (name, case)


@pytest.mark.parametrize("cluster", ["reference", "kafka"])
def test_a_plan_with_a_misspelt_broker_setting_is_refused(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["--set", "cluster.settings={num.partition: 3}"]
    assert execute(["run", "smoke", "--dry-run", "--cluster", cluster, *wrong]) == 2
    said = capsys.readouterr().err
    assert "Kafka has no broker setting 'num.partition'; did you mean 'num.partitions'?" in said
