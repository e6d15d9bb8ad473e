"""A run directory that an older commit wrote is reported as that commit reported it: same verdicts, same figures.

Both were written and reported before the run directory became records with types (commit feab11d), by the reference
client on three brokers. Each has its verdicts as the old commit wrote them. Only cells under faults were kept, with all
that the analysis reads.

- `version-2.tar.xz`, by commit c5ad4e7 (version 2 of the run log: no list of files): a leader that is lost, responses
  that are lost, transactional copiers whose brokers and members die. Events of the internal topics were left out.
- `demo-version-3.tar.xz`, by commit 8f82cb4, the last one with untyped evidence: the seven chaos cells of the suite
  `demo`. The path of the host's directory was replaced in cell.json.

What a later commit says in more words, or has in addition, is no difference: see IN_WORDS and GROWN. What it counts
from another event is counted back: see as_before. For what it expects of a cluster see check_service_level.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from reports.analyse.analysis import analyse
from reports.figures.cell import cell_figures
from reports.judge.checks import PASS
from reports.judge.judged import Judged
from reports.judge.verdict import judge
from reports.read.run_files import read_run
from reports.render.verdicts_json import cell_record
from runlog.records.codec import to_json
from runlog.streams.schema import SCHEMA_VERSION

OLD = Path(__file__).parent / "old_runs"
IN_WORDS = ("reasons", "notes", "checks")
OF_SERVICE_LEVEL = ("service_level_records_per_s", "area_record_seconds", "recover_us")
GROWN = ("anomalies", "observed_sets")  # what a later version looks for is there beside the rest


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "version", "damage"),
    [
        ("version-2", 2, [(157, 0, 0), (0, 8, 0), (0, 0, 0)]),
        ("demo-version-3", 3, [(2053, 0, 0), (0, 0, 0), (0, 248, 0), (0, 0, 0), (0, 0, 38), (0, 0, 0), (0, 0, 0)]),
    ],
)
def test_an_old_run_is_reported_as_its_own_commit_did(
    spark: SparkSession, tmp_path: Path, name: str, version: int, damage: list[tuple[int, int, int]]
) -> None:
    """`damage`: lost, duplicated and reordered records of each cell."""
    with tarfile.open(OLD / f"{name}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    run = read_run(tmp_path)
    assert run.record.schema_version == version <= SCHEMA_VERSION
    assert run.problems == ()
    before = json.loads((tmp_path / "results" / "verdicts.json").read_text())["cells"]
    after = [as_before(written(Judged(facts=facts, verdict=judge(facts)))) for facts in analyse(spark, run)]
    assert [cell["verdict"] for cell in after] == [PASS] * len(damage)
    for old, new in zip(before, after, strict=True):
        named = {check["name"]: check["result"] for check in new["checks"]}
        assert {check["name"]: named.get(check["name"]) for check in old["checks"]} == {
            check["name"]: check["result"] for check in old["checks"]
        }
        check_service_level(old["recovery"], new["recovery"])
        for key in old.keys() - set(IN_WORDS) - set(GROWN) - {"latency_us"}:
            assert without_words(new[key]) == without_words(old[key]), (old["cell_id"], key)
        check_latencies(old.pop("latency_us"), new["latency_us"])
        for key in GROWN:
            assert {name: new[key].get(name) for name in old[key]} == old[key], (old["cell_id"], key)
    found = [tuple(cell["anomalies"].get(kind, 0) for kind in ("lost", "duplicated", "reordered")) for cell in after]
    assert found == damage, "each shows the damage it was made for"


def written(item: Judged) -> dict[str, Any]:
    """As verdicts.json has it."""
    result: dict[str, Any] = json.loads(json.dumps(to_json(cell_record(cell_figures(item)))))
    return result


def check_latencies(before: dict[str, Any], after: dict[str, Any]) -> None:
    """What never came to a reader counts as infinitely late now: percentiles end to end are not smaller for it. An
    interval is drawn with the records that were missing in each block of time."""
    missing = after["end_to_end"]["unanswered"]
    for kind, old in before.items():
        new = after[kind]
        if not isinstance(old, dict):
            assert new == old, kind
            continue
        same = ("n", "max", "mean") if kind == "end_to_end" and missing else tuple(old.keys() - {"p99_interval"})
        assert {name: new[name] for name in same} == {name: old[name] for name in same}, kind
        if kind == "end_to_end":
            for name in ("p50", "p90", "p99", "p999"):
                assert name in new["not_reached"] or old[name] is None or new[name] >= old[name], name


def check_service_level(before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
    """No more is expected of a cluster after a fault than is due: one that caught up when the fault began counts as
    back at a lower rate than before, sooner, and has missed less. What follows from the rate is taken out."""
    if before is None or after is None:
        return
    old, new = ([cell.pop(name) for name in OF_SERVICE_LEVEL] for cell in (before, after))
    if old != new:
        assert new[0] < old[0]
        assert all(is_now <= was for was, is_now in zip(old[1:], new[1:], strict=True) if was is not None)


def as_before(cell: dict[str, Any]) -> dict[str, Any]:
    """Detection and election counted from the first fault, even if a later one ended the process."""
    found = cell["recovery"]
    if found is None:
        return cell
    later_us = (found.pop("process_fault_us", None) or found["fault_us"]) - found["fault_us"]
    found.pop("process_fault", None)
    for name in ("detect_us", "elect_us"):
        if found.get(name) is not None:
            found[name] += later_us
    return cell


def without_words(value: Any) -> Any:
    """A prediction says how it was made; a later commit says it better."""
    if not isinstance(value, dict):
        return value
    return {name: without_words(item) for name, item in value.items() if name != "how"}
