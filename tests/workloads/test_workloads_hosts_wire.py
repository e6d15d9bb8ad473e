"""What a load host takes from its master, and how users are spread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from workloads.hosts import wire
from workloads.hosts.spread import spread
from workloads.model import OwnUsers, Plan, Workload


def share_plan(**changes: Any) -> dict[str, Any]:
    return {
        "run_id": "run-1", "cell_id": "c1", "client": "reference", "bootstrap_servers": "10.0.0.1:9092,[::1]:9093",
        "topic": "orders", "partitions": 3, "properties": {"acks": "all", "linger.ms": "5"}, "seed": 1,
        "workload": {"rate_per_s": 100, "producers": 3}, "share": {"producers": [0]}, "t0_monotonic_ns": 5,
        "harness_t0_ns": 6, **changes,
    }  # fmt: skip


def test_a_plan_of_settings_and_numbers_is_taken() -> None:
    plan = wire.SharePlan.model_validate(share_plan())
    assert plan.properties == {"acks": "all", "linger.ms": "5"}


def test_a_locustfile_stays_where_the_harness_is(tmp_path: Path) -> None:
    workload = Workload(rate_per_s=100, locust=OwnUsers(file=tmp_path / "locustfile.py"))
    plan = Plan(
        run_dir=tmp_path, cell_id="c1", t0_monotonic_ns=5, client="reference", bootstrap_servers="10.0.0.1:9092",
        topic="orders", partitions=3, workload=workload,
    )  # fmt: skip
    share = wire.ShareOfHost(producers=(0,))
    told = wire.SharePlan.of(plan, run_id="run-1", share=share, t0_monotonic_ns=5, harness_t0_ns=6)
    assert told.workload == Workload(rate_per_s=100)


@pytest.mark.parametrize(
    "name",
    [
        "plugin.library.paths", "ssl.ca.location", "ssl.keystore.location", "sasl.jaas.config", "interceptor.classes",
        "sasl.oauthbearer.token.endpoint.url", "sasl.kerberos.kinit.cmd", "config.providers", "key.serializer",
        "partitioner.class", "metric.reporters", "security.protocol", "sasl.password", "ssl.engine.location",
        "../etc", "ACKS", "a b",
    ],
)  # fmt: skip
def test_a_setting_that_names_a_file_loads_code_or_lets_in_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="client-config"):
        wire.SharePlan.model_validate(share_plan(properties={name: "x"}))


@pytest.mark.parametrize("value", ["/etc/passwd", "a\nb", "$(id)", "`id`", "a" * 201, "..\\x"])
def test_a_value_that_could_be_a_path_or_a_command_is_refused(value: str) -> None:
    with pytest.raises(ValidationError, match="no such value"):
        wire.SharePlan.model_validate(share_plan(properties={"client.id": value}))


@pytest.mark.parametrize(
    "changes",
    [
        {"run_id": "../x"}, {"run_id": "a/b"}, {"cell_id": ".."}, {"cell_id": "/tmp"}, {"cell_id": ""},
        {"topic": "a/b"}, {"bootstrap_servers": "a b"}, {"bootstrap_servers": "unix:/x"}, {"client": "mine"},
        {"share": {}}, {"share": {"producers": [5000]}}, {"run_dir": "/tmp"}, {"runtime": {"java": "/bin/sh"}},
        {"t0_monotonic_ns": 2**63}, {"partitions": 0},
        {"workload": {"rate_per_s": 1, "corpus": "/etc/passwd"}},
        {"workload": {"rate_per_s": 1, "locust": {"file": "/tmp/locustfile.py"}}},
        {"workload": {"rate_per_s": 1, "schedule": {"kind": "replay", "file": "/etc/passwd"}}},
        {"workload": {"rate_per_s": 1, "readers": [{"name": "a", "properties": {"ssl.ca.location": "x"}}]}},
        {"workload": {"rate_per_s": 1, "readers": [{"name": "a", "deduplicate": "redis"}]}},
    ],
)  # fmt: skip
def test_a_plan_with_a_path_or_a_wrong_field_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        wire.SharePlan.model_validate(share_plan(**changes))


@pytest.mark.thorough
@given(st.recursive(st.none() | st.integers() | st.text() | st.binary(), lambda part: st.dictionaries(st.text(), part)))
def test_no_message_of_any_shape_is_taken_for_another(data: object) -> None:
    for model in (wire.Hello, wire.ClockAnswer, wire.SharePlan, wire.Chunk, wire.FilesOfCell, wire.Welcome):
        with pytest.raises(ValidationError):
            model.model_validate(data)


@pytest.mark.parametrize("name", ["../x", "a.key", "send-p0i0-000000.seg.part", "send-p0/x-000000.seg", ".", ""])
def test_only_files_of_the_run_log_can_be_asked_for(name: str) -> None:
    with pytest.raises(ValidationError):
        wire.AskChunk(run_id="r", cell_id="c", name=name, offset=0)


def test_other_versions_are_refused_with_both_named() -> None:
    problem = wire.version_problem("load-1", "0.2.0", "0.1.0")
    assert "0.2.0" in problem
    assert "0.1.0" in problem
    assert "load-1" in problem
    assert wire.version_problem("load-1", "0.1.0", "0.1.0") == ""


@given(
    producers=st.integers(1, 40),
    consumers=st.integers(0, 40),
    hosts=st.integers(1, 9),
)
def test_each_user_runs_on_exactly_one_host_and_readers_only_beside_producers(
    producers: int, consumers: int, hosts: int
) -> None:
    workload = Workload(rate_per_s=1, producers=producers, consumers=consumers)
    shares = spread(workload, [f"h{number}" for number in range(hosts)])
    assert sorted(n for share in shares.values() for n in share.producers) == list(range(producers))
    assert sorted(n for share in shares.values() for n in share.consumers) == list(range(consumers))
    assert all(share.producers for share in shares.values())
    counts = [len(share.producers) for share in shares.values()]
    assert max(counts) - min(counts) <= 1


def test_one_producer_keeps_all_readers_on_its_host() -> None:
    shares = spread(Workload(rate_per_s=1, producers=1, consumers=4), ["a", "b", "c"])
    assert {name: (share.producers, share.consumers) for name, share in shares.items()} == {"a": ((0,), (0, 1, 2, 3))}
