"""The chaos smoke set with the load on three hosts: the same verdicts as with the load here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import chaos
from harness.cli.load.chaos_suites import SMOKE
from tests.harness.load_workers import PASS_OR_INCONCLUSIVE, SLOW, Workers, harness, said

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.spark]

NAMES = ("a", "b", "c")


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    found = Workers(tmp_path, *NAMES)
    yield found
    found.close()


def smoke_suite(directory: Path) -> Path:
    """The smoke set with a producer and a reader for each host, where it has one of each."""
    entries = []
    for name, cases in SMOKE.items():
        text = (Path(chaos.__file__).parent / "scenarios" / f"{name}.yaml").read_text()
        assert text.count("producers: 1,") == 1
        path = directory / f"{name}.yaml"
        path.write_text(text.replace("producers: 1,", "producers: 3, consumers: 3,"))
        entries.append({"scenario": str(path), "cases": list(cases)})
    suite = directory / "smoke.yaml"
    suite.write_text(json.dumps({"name": "smoke", "workload": {"rate_per_s": 2000}, "chaos": entries}))
    return suite


def cells_of(run_dir: Path) -> dict[str, Any]:
    return {path.parent.name: json.loads(path.read_text()) for path in run_dir.glob("cells/*/cell.json")}


def test_the_smoke_set_has_the_verdicts_of_one_host(tmp_path: Path, workers: Workers) -> None:
    suite = smoke_suite(tmp_path)
    verdicts = {}
    for where, options in (("one", []), ("three", workers.options)):
        run_dir = tmp_path / where
        done = harness(tmp_path, ["run", str(suite), "--no-certify", "--run-dir", str(run_dir), *options])
        assert done.returncode in PASS_OR_INCONCLUSIVE, said(done)
        found = json.loads((run_dir / "results" / "verdicts.json").read_text())
        verdicts[where] = {cell["cell_id"]: cell for cell in found["cells"]}
    assert len(verdicts["one"]) == 6
    assert set(verdicts["three"]) == set(verdicts["one"])
    for cell_id, cell in verdicts["three"].items():
        one, three = verdicts["one"][cell_id]["verdict"], cell["verdict"]
        was_slow = any(word in reason for reason in cell["reasons"] for word in SLOW)
        assert three == one or (three == "inconclusive" and was_slow), (cell_id, one, cell["reasons"])
    for cell_id, cell in cells_of(tmp_path / "three").items():
        hosts = cell["outcome"]["load_hosts"]
        assert [(host["name"], host["producers"], host["consumers"]) for host in hosts] == [
            ("a", [0], [0]), ("b", [1], [1]), ("c", [2], [2]),
        ], cell_id  # fmt: skip
        assert all(host["is_gathered"] for host in hosts)
        assert cell["outcome"]["final_read"]["complete"]
