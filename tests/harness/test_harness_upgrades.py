"""Brokers of Apache Kafka are upgraded and downgraded under load, and nothing is lost. Real nodes of two releases."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from harness.clusters.kafka.jars import ensure_jars
from harness.errors import EnvironmentFault
from harness.kafka_releases import parse_release
from tests.json_lines import read_jsonl
from tests.patience import run_command

pytestmark = [pytest.mark.versions, pytest.mark.long, pytest.mark.kafka, pytest.mark.slow, pytest.mark.spark]


@pytest.mark.parametrize(
    ("scenario", "changes", "last"),
    [("upgrade-rolling", 3, "4.3.1"), ("upgrade-rolled-back", 4, "3.9.1"), ("upgrade-leader-killed", 2, "")],
)
def test_an_upgrade_under_load_loses_nothing_and_each_step_is_proved(
    tmp_path: Path, scenario: str, changes: int, last: str
) -> None:
    try:
        ensure_jars(parse_release("3.9.1"))
    except EnvironmentFault as error:
        pytest.skip(str(error))
    run = tmp_path / "run"
    command = [sys.executable, "-m", "harness", "chaos", scenario, "--cluster", "kafka", "--client", "confluent"]
    done = run_command([*command, "--run-dir", str(run)])
    assert done.returncode == 0, f"stdout:\n{done.stdout[-3000:]}\nstderr:\n{done.stderr[-3000:]}"
    (cell,) = json.loads((run / "results" / "verdicts.json").read_text(encoding="utf-8"))["cells"]
    assert (cell["verdict"], cell["lost"], cell["duplicated"], cell["reordered"]) == ("pass", 0, 0, 0)
    record = json.loads((run / "cells" / cell["cell_id"] / "cell.json").read_text(encoding="utf-8"))
    assert record["engine_version"].startswith("Apache Kafka 3.9.1")
    assert not last or record["engine_version"] in (f"Apache Kafka 3.9.1, then {last}", f"Apache Kafka {last}")
    faults = read_jsonl(run / "cells" / cell["cell_id"] / "faults.jsonl")
    proved = [line for line in faults if line["phase"] == "proved" and line["kind"] in ("upgrade", "downgrade")]
    assert len(proved) == changes
    for line in proved:
        assert set(line["detail"]["jars"].values()) == {f"kafka_2.13-{line['detail']['to']}.jar"}
