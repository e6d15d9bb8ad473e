"""Designs of a sweep: their size, what they can tell apart, what they refuse; and how a suite's sweep becomes cells."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from harness.designs import CONFIGURATIONS_MAX, fractional, grid, latin_hypercube, one_at_a_time, range_levels
from harness.errors import UsageError
from harness.plan import ScenarioCase, build_plan
from harness.planned_cell import PlannedCell
from harness.suite import ChaosEntry, Suite, load_suite

LEVELS = {"a": ["1", "2", "3"], "b": ["x", "y"], "c": ["0", "9"]}


def no_cases(_entry: ChaosEntry) -> list[ScenarioCase]:
    return []


def test_one_at_a_time_is_the_baseline_and_each_other_value_alone() -> None:
    base, *others = one_at_a_time(LEVELS)
    assert base == {"a": "1", "b": "x", "c": "0"}
    assert [sum(base[name] != value for name, value in one.items()) for one in others] == [1] * 4


def test_a_grid_is_every_combination_and_too_large_a_one_is_refused() -> None:
    design = grid(LEVELS)
    assert len({tuple(one.items()) for one in design}) == 12
    assert design[0] == {"a": "1", "b": "x", "c": "0"}
    with pytest.raises(UsageError, match=rf"1,024 configurations, expected at most {CONFIGURATIONS_MAX}"):
        grid({str(number): ["0", "1"] for number in range(10)})


@pytest.mark.parametrize("factors", range(2, 11))
def test_a_fraction_keeps_main_effects_clear_of_pairs(factors: int) -> None:
    names = [f"f{number}" for number in range(factors)]
    design = fractional({name: ["0", "1"] for name in names})
    assert design[0] == dict.fromkeys(names, "0")
    assert len(design) <= 32
    signs = np.array([[1.0 if one[name] == "0" else -1.0 for name in names] for one in design])
    gram = signs.T @ signs
    assert np.array_equal(gram, len(design) * np.eye(factors)), "main effects are clear of one another"
    for one, other in itertools.combinations(range(factors), 2):
        assert not (signs.T @ (signs[:, one] * signs[:, other])).any(), "and of every pair"


def test_a_fraction_wants_two_values_each() -> None:
    with pytest.raises(UsageError, match="a has 3"):
        fractional(LEVELS)


def test_a_latin_hypercube_uses_every_value_equally_often_and_entangles_little() -> None:
    levels = {"a": [str(v) for v in range(12)], "b": ["x", "y", "z"], "c": ["0", "9"]}
    base, *points = latin_hypercube(levels, 12, seed=3)
    assert base == {"a": "0", "b": "x", "c": "0"}
    assert len(points) >= 11
    assert latin_hypercube(levels, 12, seed=3) == (base, *points)
    assert latin_hypercube(levels, 12, seed=4) != (base, *points)
    assert set(Counter(point["b"] for point in points).values()) <= {3, 4, 5}
    places = np.array([[levels[name].index(point[name]) for name in levels] for point in points], dtype=float)
    assert abs(np.corrcoef(places.T) - np.eye(3)).max() < 0.35


def test_a_range_is_spread_by_ratio() -> None:
    assert range_levels(1024, 16384, 5) == ["1024", "2048", "4096", "8192", "16384"]
    assert range_levels(0, 100, 5) == ["0", "25", "50", "75", "100"]


SUITE = """
name: t
workload: {rate_per_s: 1000, record_size_bytes: 512, consumers: 1}
topic: {partitions: 3}
sweep:
  baseline: {acks: all, linger.ms: 5, enable.idempotence: true}
  repetitions: 2
"""


def planned(tmp_path: Path, sweep: str) -> tuple[Suite, list[PlannedCell]]:
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE + sweep)
    suite = load_suite(str(path))
    return suite, list(build_plan(suite, no_cases, seed=1, client="reference"))


def test_workload_and_topic_can_be_varied_beside_client_settings(tmp_path: Path) -> None:
    vary = "  design: grid\n  vary: {linger.ms: [50], workload.record_size_bytes: [64], topic.partitions: [12]}\n"
    _, cells = planned(tmp_path, vary)
    assert len(cells) == 16
    assert len({cell.cell_id for cell in cells}) == 16
    small = [cell for cell in cells if cell.record.factors["workload.record_size_bytes"] == "64"]
    assert {cell.workload.record_size_bytes for cell in small} == {64}
    assert {cell.partitions for cell in cells if cell.record.factors["topic.partitions"] == "12"} == {12}
    assert {cell.properties["linger.ms"] for cell in cells if cell.record.factors["linger.ms"] == "50"} == {"50"}
    assert "workload.record_size_bytes" not in cells[0].properties
    first, second = cells[:8], cells[8:]
    assert [cell.repetition for cell in first] == [1] * 8
    assert [cell.record.factors for cell in first] != [cell.record.factors for cell in second], (
        "each round has its own order"
    )


def test_a_value_brings_the_settings_that_it_demands(tmp_path: Path) -> None:
    vary = "  vary: {acks: [{value: 1, with: {enable.idempotence: false}, because: why}], linger.ms: [0]}\n"
    _, cells = planned(tmp_path, vary)
    loose = next(cell for cell in cells if cell.record.factors["acks"] == "1")
    assert (loose.properties["enable.idempotence"], loose.properties["linger.ms"]) == ("false", "5")
    assert loose.title == "acks=1 (with enable.idempotence=false: why)"
    assert (
        next(cell for cell in cells if cell.record.factors["linger.ms"] == "0").properties["enable.idempotence"]
        == "true"
    )


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ("  vary: {workload.rate: [5]}\n", "workload.rate: no such key; did you mean 'workload.rate_per_s'"),
        ("  vary: {topic.partitions: [0]}\n", "topic.partitions: expected 1 or more"),
        ("  vary: {linger.ms: {from: 1, to: 100}}\n", "only design latin-hypercube takes one, not one-at-a-time"),
        ("  samples: 9\n  vary: {linger.ms: [1]}\n", "samples belongs to design latin-hypercube"),
        (
            "  design: grid\n  vary: {acks: [{value: 1, with: {enable.idempotence: false}}],"
            " enable.idempotence: [false]}\n",
            "acks: 1 comes with enable.idempotence=false, but enable.idempotence is varied too",
        ),
    ],
)  # fmt: skip
def test_what_a_design_does_not_take_is_an_error(tmp_path: Path, sweep: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        planned(tmp_path, sweep)


def test_a_setting_that_the_baseline_does_not_state_stays_the_clients_own(tmp_path: Path) -> None:
    _, cells = planned(tmp_path, "  vary: {batch.size: [4096], delivery.timeout.ms: [30000]}\n")
    base = next(cell for cell in cells if cell.baseline)
    assert dict(base.record.factors) == {"batch.size": "16384", "delivery.timeout.ms": "default"}
    assert not {"batch.size", "delivery.timeout.ms"} & set(base.properties)
    assert {cell.cell_id for cell in cells if cell.repetition == 1} == {
        "sweep-baseline-r1", "sweep-batch.size-4096-r1", "sweep-delivery.timeout.ms-30000-r1",
    }  # fmt: skip


VERSIONS = ["confluent==2.8.2", "confluent==2.16.1", "reference"]


def _versions(**sweep: object) -> Suite:
    document = {"baseline": {"linger.ms": "5"}, "vary": {"client": VERSIONS}, **sweep}
    return Suite.model_validate({"name": "versions", "workload": {"rate_per_s": 10}, "sweep": document})


def _cells_of(suite: Suite) -> tuple[PlannedCell, ...]:
    return build_plan(suite, no_cases, seed=1, client=suite.client, sweep_client=suite.sweep_client)


def test_a_sweep_over_clients_runs_each_of_them_in_each_round_and_calls_them_no_setting() -> None:
    cells = _cells_of(_versions(repetitions=3))
    assert Counter(cell.client for cell in cells) == dict.fromkeys(VERSIONS, 3)
    assert all(cell.record.factors["client"] == cell.client for cell in cells)
    assert all(dict(cell.properties) == {"linger.ms": "5"} for cell in cells)
    assert {cell.client for cell in cells if cell.record.baseline} == {"confluent==2.8.2"}
    assert {cell.record.title for cell in cells} == {
        "baseline (client=confluent==2.8.2)", "client=confluent==2.16.1", "client=reference",
    }  # fmt: skip
    assert {cell.cell_id for cell in cells if cell.client == "confluent==2.16.1"} == {
        f"sweep-client-confluent-2.16.1-r{number}" for number in (1, 2, 3)
    }


def test_clients_and_settings_are_combined_by_every_design() -> None:
    suite = _versions(design="grid", vary={"client": VERSIONS, "acks": ["1", "all"]})
    made = {(cell.client, cell.properties.get("acks", "all")) for cell in _cells_of(suite)}
    assert made == set(itertools.product(VERSIONS, ["1", "all"]))


def test_the_client_of_the_sweep_is_its_baseline() -> None:
    cells = _cells_of(_versions(client="aiokafka==0.12.0"))
    assert [cell.client for cell in cells if cell.record.baseline] == ["aiokafka==0.12.0"]
    assert len(cells) == 4


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("confluent-kafka==2.4.0", "here it is confluent==2.4.0"),
        ("confluent=2.4.0", "did you mean 'confluent==2.4.0'?"),
        ("kafkajs@v2.2.3", "did you mean 'kafkajs==2.2.3'?"),
        ("confluent==newest", "expected a version like 2.4.0 after ==, got 'newest'"),
        ("reference==1", "versions of reference cannot be chosen"),
        ("confluant", "did you mean 'confluent'?"),
    ],
)
def test_a_client_that_is_none_is_told_with_the_right_one(name: str, told: str) -> None:
    with pytest.raises(UsageError, match=rf"sweep\.vary\.client: '{name}': no such client") as refused:
        _cells_of(_versions(vary={"client": ["reference", name]}))
    assert told in str(refused.value)


def test_clients_are_no_range() -> None:
    with pytest.raises(ValueError, match="client is varied over names"):
        _versions(design="latin-hypercube", vary={"client": {"from": 1, "to": 2}})
