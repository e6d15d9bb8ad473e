"""Each rule of the lint fires on its mistake and keeps silent without it; --strict makes it an error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import execute
from harness.errors import ExitCode
from harness.lint import RACK_AWARE, lint, rule_names
from harness.planned_cell import PlannedCell, new_record
from runlog.records.cell import CellKind, TopicRecord
from workloads.model import Workload

SAFE = {"acks": "all", "enable.idempotence": "true", "compression.type": "lz4"}
SOUND = PlannedCell(
    record=replace(
        new_record(
            cell_id="sweep-a", kind=CellKind.SWEEP, title="a", client="reference", repetition=1, properties=SAFE,
            topic=TopicRecord(
                name=None, partitions=3, replication_factor=3, config={"min.insync.replicas": "2"}
            ),
            log_directories=1, racks=(), broker_settings={}, proxied=False, seed=1,
        ),
        baseline=True,
    ),
    workload=Workload(rate_per_s=2_000, measure_ms=5_000, warmup_ms=1_000, consumers=1),
)  # fmt: skip


def recorded(planned: PlannedCell, **changes: Any) -> PlannedCell:
    """With these fields of its record, or of the record's topic."""
    topic = {name: changes.pop(name) for name in ("partitions", "replication_factor", "config") if name in changes}
    record = replace(planned.record, topic=replace(planned.record.topic, **topic), **changes)
    return replace(planned, record=record)


def cell(**changes: object) -> PlannedCell:
    """The sound cell with these fields, workload fields and properties (dots as underscores) changed."""
    properties, workload, own = dict(SAFE), SOUND.workload.model_dump(), {}
    for name, value in changes.items():
        if name in workload:
            workload[name] = value
        elif name in ("replication_factor", "partitions", "proxied", "topic_config", "repetition"):
            own[name.removeprefix("topic_")] = value
        else:
            properties[name.replace("_", ".")] = str(value)
    return recorded(replace(SOUND, workload=Workload.model_validate(workload)), properties=properties, **own)


def in_rack(rack: str) -> PlannedCell:
    """The sound cell with a reader in this rack beside another one."""
    return cell(consumers=2, readers=[{"name": "any"}, {"name": "near", "properties": {"client.rack": rack}}])


def repeated(*cells: PlannedCell) -> list[PlannedCell]:
    return [recorded(one, repetition=number, fork=number) for number in (1, 2, 3, 4) for one in cells]


CASES: dict[str, list[PlannedCell]] = {
    "acks-0-latency": [cell(acks=0, enable_idempotence="false")],
    "too-short-for-p999": [cell(rate_per_s=1_000)],
    "one-copy-called-durable": [cell(replication_factor=1)],
    "order-with-many-in-flight": [cell(enable_idempotence="false")],
    "batch-larger-than-request": [cell(batch_size=2_000_000)],
    "no-warm-up": [cell(warmup_ms=0)],
    "window-too-short-to-judge": [cell(measure_ms=1_000, rate_per_s=50_000)],
    "one-producer-many-partitions": [cell(partitions=48)],
    "closed-loop": [cell(schedule={"kind": "closed", "outstanding": 4})],
    "consumer-missing": [cell(consumers=0)],
    "rack-without-effect": [in_rack("a")],
    "compression-of-made-up-data": [cell(), cell(compression_type="none")],
    "mixed-durability": [cell(), cell(acks=1, max_in_flight_requests_per_connection=1, enable_idempotence="false")],
    "through-proxies": [cell(proxied=True)],
}


def test_a_sound_plan_has_no_finding() -> None:
    assert lint(repeated(cell())) == []


@pytest.mark.parametrize("rule", CASES)
def test_each_mistake_is_found_by_its_own_rule_alone(rule: str) -> None:
    assert {finding.rule for finding in lint(repeated(*CASES[rule]))} == {rule}


def test_every_rule_is_shown() -> None:
    assert {*CASES, "too-few-repetitions", "one-cluster"} == set(rule_names())
    assert [finding.rule for finding in lint([cell()])] == ["too-few-repetitions"]


@pytest.mark.parametrize(
    ("forks", "said"),
    [
        ((1, 1, 1, 1), "all 4 repetitions run on one cluster"),
        ((1, 1, 2, 2), "by 1 degree of freedom"),
        ((1, 1, 2, 3), ""),
    ],
)
def test_repetitions_on_one_cluster_or_two_are_told(forks: tuple[int, ...], said: str) -> None:
    found = lint([recorded(one, fork=fork) for one, fork in zip(repeated(cell()), forks, strict=True)])
    assert [finding.rule for finding in found] == (["one-cluster"] if said else [])
    assert said in "".join(finding.text() for finding in found)


@pytest.mark.parametrize(
    ("racks", "selector", "rack", "said"),
    [
        ((), "", "b", "no broker is in this rack, so consumers read from leaders; see cluster.racks"),
        (("a", "c", "a"), RACK_AWARE, "b", "the brokers are in a, c"),
        (("a", "b"), "", "b", f"replica.selector.class={RACK_AWARE}"),
        (("a", "b"), RACK_AWARE, "b", ""),
        ((), "", "", ""),
    ],
)
def test_a_rack_without_effect_is_told(racks: tuple[str, ...], selector: str, rack: str, said: str) -> None:
    one = recorded(in_rack(rack), racks=racks, broker_settings={"replica.selector.class": selector})
    found = lint(repeated(one))
    assert [finding.rule for finding in found] == (["rack-without-effect"] if said else [])
    assert said in "".join(finding.text() for finding in found)
    assert lint(repeated(one), is_own_cluster=False) == []


def test_the_default_of_idempotence_follows_acks() -> None:
    own = {name: value for name, value in SAFE.items() if name != "enable.idempotence"}
    assert lint(repeated(recorded(SOUND, properties=own))) == []
    loose = recorded(SOUND, properties={**own, "acks": "1"})
    assert {finding.rule for finding in lint(repeated(loose))} == {"order-with-many-in-flight"}


def test_a_finding_names_its_cells_unless_all_have_it() -> None:
    small = recorded(cell(warmup_ms=0), cell_id="sweep-cold")
    finding = lint(repeated(cell(), small))[0]
    assert (finding.rule, finding.cells) == ("no-warm-up", ("sweep-cold",))
    assert finding.text().endswith("[sweep-cold]")
    assert lint(repeated(small))[0].cells == ()


def test_strict_makes_a_finding_an_error_and_a_dry_run_only_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "name: s\nworkload: {rate_per_s: 2000, measure_ms: 6000, warmup_ms: 0, consumers: 1}\n"
        "sweep: {repetitions: 3, baseline: {acks: all}, vary: {linger.ms: [0]}}\n"
    )
    assert execute(["run", str(path), "--dry-run"]) == ExitCode.PASS
    assert "lint: no-warm-up: no warm-up" in capsys.readouterr().err
    assert execute(["run", str(path), "--dry-run", "--strict"]) == ExitCode.USAGE
    assert "no-warm-up" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("schedule", "records"),
    [
        ({"kind": "ramp", "from_rate_per_s": 10, "to_rate_per_s": 30}, 200),  # on average 20 a second for 10 s
        ({"kind": "closed", "outstanding": 10}, None),  # its rate is a ceiling
    ],
)
def test_what_is_due_is_told_by_the_schedule(schedule: dict[str, object], records: int | None) -> None:
    one = cell(rate_per_s=100_000, measure_ms=10_000, schedule=schedule)
    said = [finding.message for finding in lint([one]) if finding.rule == "too-short-for-p999"]
    assert [text.split(" records")[0] for text in said] == ([f"about {records}"] if records else [])
