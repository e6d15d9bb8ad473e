"""Releases of Apache Kafka: which words name one, the Java that each needs, and what an older one is not asked for."""

from __future__ import annotations

import re

import pytest

from chaos.model import builtin_scenarios, parse_scenario
from harness.clusters.kafka.jars import check_java
from harness.errors import EnvironmentFault, UsageError
from harness.kafka_releases import (
    DEFAULT,
    OLDEST,
    ClusterChoice,
    Release,
    cluster_choice,
    java_of,
    near_release,
    parse_release,
    parse_releases,
    version_words,
)
from harness.plan import build_plan
from harness.planned_cell import PlannedCell
from harness.release_needs import release_problem, releases_of
from harness.scenarios import cases_of
from harness.settings_alone import validated
from harness.suite import Suite
from harness.suite_source import parse_source

SUITE = """
name: s
workload: {rate_per_s: 10, record_size_bytes: 100, measure_ms: 1000}
chaos: [{scenario: %s}]
%s
"""


def suite(scenario: str = "leader-kill", more: str = "") -> Suite:
    return validated(parse_source(SUITE % (scenario, more), "s.yaml"), Suite)


def cells(scenario: str, *releases: str) -> tuple[PlannedCell, ...]:
    asked = suite(scenario).with_releases(releases)
    return build_plan(asked, cases_of, seed=1, client="java", sweep_client="java")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("reference", ClusterChoice(engine="reference")),
        ("kafka", ClusterChoice(engine="kafka")),
        ("kafka==3.9.1", ClusterChoice(engine="kafka", releases=("3.9.1",))),
        ("kafka==3.9.1, 4.3.1", ClusterChoice(engine="kafka", releases=("3.9.1", "4.3.1"))),
    ],
)
def test_a_cluster_is_named_with_its_releases(text: str, expected: ClusterChoice) -> None:
    assert cluster_choice(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("reference==3.9.1", "only kafka has releases to choose from, like kafka==4.3.1"),
        ("kafka==3.9", "'3.9': expected a release of three numbers, like 4.3.1.*did you mean '3.9.[012]'"),
        ("kafka==", "expected a release of three numbers, like 4.3.1; "),
        ("kafka==3.2.3", "3.2.3: expected 3.3 or later: brokers run without ZooKeeper"),
        ("kafka==4.3.1-rc1", "expected a release of three numbers"),
        ("kafka=3.9.1", None),  # no release: an unknown kind of cluster, which the caller refuses
    ],
)
def test_a_wrong_release_is_told_with_the_right_form(text: str, message: str | None) -> None:
    if message is None:
        assert cluster_choice(text).engine == text
        return
    with pytest.raises(UsageError, match=message):
        cluster_choice(text)


def test_an_unknown_release_has_a_near_one_and_a_known_one_needs_none() -> None:
    assert near_release(Release(3, 9, 1)) == ""
    assert "'3.9.2'" in near_release(Release(3, 9, 3))


def test_releases_are_ordered_by_number_and_not_by_text() -> None:
    assert parse_release("3.10.0") > parse_release("3.9.2")
    assert parse_releases([]) == (DEFAULT,)


@pytest.mark.parametrize(
    ("release", "java", "expected"),
    [("3.3.2", 17, ""), ("3.9.1", 8, ""), ("4.0.0", 17, ""), ("4.3.1", 25, ""), ("3.3.2", 21, "Java 8 to 17.*Java 21")],
)
def test_a_java_that_a_release_is_not_documented_for_is_told(release: str, java: int, expected: str) -> None:
    note = check_java(parse_release(release), java)
    if not expected:
        assert note == ""
    else:
        assert re.search(expected, note)


def test_a_java_that_is_too_old_is_refused_with_the_right_one() -> None:
    with pytest.raises(EnvironmentFault, match=r"4\.0\.0 needs Java 17 to 21, and this is Java 11.*openjdk-17"):
        check_java(parse_release("4.0.0"), 11)


def test_every_release_has_a_java() -> None:
    assert java_of(OLDEST).oldest == 8
    assert java_of(Release(9, 0, 0)).oldest == 17


def test_the_words_for_a_cluster_name_each_release_once_and_what_it_became() -> None:
    old, new = Release(3, 9, 1), Release(4, 3, 1)
    assert version_words([old] * 3) == "Apache Kafka 3.9.1"
    assert version_words([old, new, old]) == "Apache Kafka 3.9.1 and 4.3.1"
    assert version_words([old] * 3, [new, new, old]) == "Apache Kafka 3.9.1, then 4.3.1 and 3.9.1"


@pytest.mark.parametrize(
    ("scenario", "release", "problem"),
    [
        ("leader-kill", "3.3.2", ""),
        ("share-consumer-killed", "4.1.2", "Apache Kafka 4.1.2 lacks share groups .KIP-932., which came with 4.2.0"),
        ("share-consumer-killed", "4.2.0", ""),
        (
            "rebalance-storm-consumer-protocol",
            "3.9.1",
            "lacks group.protocol=consumer .KIP-848., which came with 4.0.0",
        ),
        ("log-directory-failure", "3.6.2", "lacks several log directories"),
        ("log-directory-emptied", "4.2.2", "lacks cordoned log directories .KIP-1066., which came with 4.3.0"),
        ("password-changed", "3.4.1", "lacks SCRAM users"),
        ("token-expired", "3.8.1", "lacks the validator of OAUTHBEARER"),
    ],
)
def test_a_release_is_not_asked_for_what_it_lacks(scenario: str, release: str, problem: str) -> None:
    for cell in cells(scenario, "4.3.1", release):
        assert (release_problem(cell) == "") is (problem == "")
        assert not problem or re.search(problem, release_problem(cell))


def test_a_case_is_for_the_releases_that_do_what_it_expects() -> None:
    problems = {release: release_problem(*cells("late-end-txn", release)) for release in ("3.9.1", "4.0.0")}
    assert problems == {
        "3.9.1": "case transaction-version-2 expects what Apache Kafka does since 4.0.0, not 3.9.1",
        "4.0.0": "",
    }


def test_the_default_can_do_every_scenario() -> None:
    for scenario in builtin_scenarios():
        for cell in cells(scenario):
            assert bool(cell.releases) is scenario.startswith("upgrade-")
            assert release_problem(cell) == ""


def test_a_suite_names_its_cluster_with_the_release() -> None:
    found = suite(more="cluster: kafka==3.9.1")
    assert found.engines == ["kafka"]
    assert found.cluster.releases == ("3.9.1",)
    assert suite(more="cluster: {releases: [3.9.1, 4.0.0]}").cluster.releases == ("3.9.1", "4.0.0")
    assert suite().cluster.releases == ()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("cluster: kafka==3.9", "s.yaml:5.*three numbers"),
        ("cluster: {releases: [2.8.0]}", "s.yaml:5.*expected 3.3 or later"),
        ("cluster: {release: [3.9.1]}", "did you mean 'releases'"),
    ],
)
def test_a_wrong_release_in_a_suite_is_told_with_its_place(more: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        suite(more=more)


def test_the_command_line_counts_before_the_suite_and_the_suite_before_the_scenario() -> None:
    scenario = parse_scenario(
        "{name: x, title: X, damage: none, source: here, releases: [3.9.1], cases: {a: {title: A}}, "
        "timeline: [{id: up, at: 1s, fault: upgrade, target: 'broker:1', with: {to: 4.0.0}}, "
        "{id: next, fault: upgrade}], engines: [kafka]}"
    )
    assert scenario.later_releases == ("4.0.0", "")
    of_suite = suite(more="cluster: {releases: [3.8.1]}")
    assert of_suite.with_releases(["4.4.0"]).cluster.releases == ("4.4.0",)
    assert of_suite.with_releases([]).cluster.releases == ("3.8.1",)


def test_all_releases_of_a_plan_are_known_before_it_begins() -> None:
    assert releases_of(cells("leader-kill", "3.9.1", "4.0.0")) == (Release(3, 9, 1), Release(4, 0, 0))
    assert releases_of(cells("leader-kill")) == (DEFAULT,)
