"""The cores of streams groups give the results of Apache Kafka's own classes, in many random cases.

Kafka's classes run in one JVM (java/StreamsCores.java). A case and its result are a line of JSON each.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from streams_cases import (
    BROKEN,
    Json,
    assignment_case,
    assignment_json,
    configured_json,
    current_json,
    holders_of,
    ready,
    reconcile_case,
    reconcile_json,
    tasks_json,
    topology_case,
    topology_json,
)

from broker.coordinator.groups.streams.assignor import AssignorError, assign
from broker.coordinator.groups.streams.configured import (
    BrokenTopologyError,
    ConfiguredTopology,
    InvalidTopologyError,
    ProblemCode,
    configure,
    endpoint_partitions,
)
from broker.coordinator.groups.streams.reconcile import FencedMemberError, MemberState, reconcile
from broker.coordinator.groups.streams.topology import Topology
from harness.clusters.kafka.jars import ensure_jars, java_command
from tests.amount import examples
from tests.patience import run_command

PROGRAM = Path(__file__).with_name("java") / "StreamsCores.java"
SEED = 1071
CASES = examples(600)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="no Java"),
]


def kafka_results(cases: list[Json]) -> list[Json]:
    command = [java_command(), "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m"]
    command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", f"{ensure_jars()}/*", str(PROGRAM)]
    lines = "".join(f"{json.dumps(case)}\n" for case in cases)
    done = run_command(command, input=lines)
    assert done.returncode == 0, done.stderr[-2_000:]
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == len(cases)
    return results


def plain(value: Json) -> Json:
    """With lists for tuples, as JSON gives it back."""
    read: Json = json.loads(json.dumps(value))
    return read


def test_the_assignor_gives_the_tasks_that_kafka_gives() -> None:
    rng = random.Random(SEED)
    cases = [assignment_case(rng) for _ in range(CASES)]
    found: list[Json] = []
    for members, subtopologies, replicas in cases:
        try:
            targets = assign(members, ready(subtopologies), standby_replicas=replicas)
            found.append({member_id: tasks_json(tasks) for member_id, tasks in sorted(targets.items())})
        except AssignorError as error:
            found.append({"error": str(error)})
    expected = kafka_results([assignment_json(*case) for case in cases])
    for index, case in enumerate(cases):
        assert found[index] == expected[index], (index, case)
    assert 0 < sum("error" in each for each in expected) < CASES // 10, "a group without members"


def test_the_topics_are_configured_as_kafka_configures_them() -> None:
    rng = random.Random(SEED)
    cases = [(Topology(epoch=1, subtopologies=each), {"in": 2}) for each in BROKEN]
    cases += [topology_case(rng) for _ in range(3 * CASES)]
    outcomes: Counter[str] = Counter()
    found: list[Json] = []
    given: list[Json] = []
    for topology, topics in cases:
        result, outcome, active = _configure(topology, topics)
        outcomes[outcome] += 1
        given.append(topology_json(topology, topics, active))
        found.append(result)
    expected = kafka_results(given)
    for each in expected:
        each.get("endpoint", []).sort()  # the order of a hash map, which nothing depends on
    for index, case in enumerate(cases):
        assert plain(found[index]) == expected[index], (index, case)
    assert set(outcomes) == {
        "InvalidTopologyError",
        "BrokenTopologyError",
        "ready",
        *(each.name for each in ProblemCode),
    }
    assert min(outcomes.values()) >= 2, outcomes


def _configure(topology: Topology, topics: dict[str, int]) -> tuple[Json, str, dict[str, dict[int, int]] | None]:
    """The result, its kind, and active tasks of a member with an endpoint."""
    try:
        configured = configure(topology, topics)
    except InvalidTopologyError as error:
        return {"error": str(error)}, "InvalidTopologyError", None
    except BrokenTopologyError:
        return {"error": "unexpected"}, "BrokenTopologyError", None
    result = configured_json(configured)
    if configured.problem is not None:
        return result, configured.problem.code.name, None
    active = _every_other_task(configured)
    tasks = {name: frozenset(epochs) for name, epochs in active.items()}
    result["endpoint"] = sorted(endpoint_partitions(tasks, configured, topics))
    return result, "ready", active


def _every_other_task(configured: ConfiguredTopology) -> dict[str, dict[int, int]]:
    assert configured.subtopologies is not None
    return {name: {index: 1 for index in range(0, each.tasks, 2)} for name, each in configured.subtopologies.items()}


def test_a_member_is_reconciled_as_kafka_does_it() -> None:
    rng = random.Random(SEED)
    cases = [reconcile_case(rng) for _ in range(2 * CASES)]
    states: Counter[tuple[MemberState, MemberState]] = Counter()
    found: list[Json] = []
    for case in cases:
        try:
            after = reconcile(
                case["current"],
                target=case["target"],
                target_epoch=case["target_epoch"],
                process_id=case["process"],
                owned=case["owned"],
                holders=holders_of(case),
            )
            states[case["current"].state, after.state] += 1
            found.append(current_json(after))
        except FencedMemberError as error:
            found.append({"error": str(error)})
    expected = kafka_results([reconcile_json(case) for case in cases])
    for index, case in enumerate(cases):
        assert plain(found[index]) == expected[index], (index, case)
    reached = (MemberState.STABLE, MemberState.UNREVOKED_TASKS, MemberState.UNRELEASED_TASKS)
    for before in MemberState:
        for after in reached:
            # a member in an unknown state must have given up all its tasks already
            is_possible = (before, after) != (MemberState.UNKNOWN, MemberState.UNREVOKED_TASKS)
            assert (states[before, after] >= 2) == is_possible, (before, after, states)
