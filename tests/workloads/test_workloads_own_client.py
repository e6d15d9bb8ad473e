"""The page docs/guide/clients.md, followed to the letter: its package is built, installed, listed and sends records."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from runlog.streams.compact import compact_cell
from runlog.streams.schema import RECV, SEND, SendStatus
from tests.patience import run_command
from tests.workloads.load_process import Load
from tests.workloads.reference_broker import ReferenceBroker

pytestmark = [pytest.mark.slow, pytest.mark.long]
PAGE = Path(__file__).parents[2] / "docs" / "guide" / "clients.md"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for PYTHONPATH that holds the page's package as pip installed it."""
    source, target = tmp_path_factory.mktemp("shop-client"), tmp_path_factory.mktemp("site")
    for name, text in re.findall(r"```(?:toml|python)\n# (\S+)\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        (source / name).write_text(text)
    assert sorted(path.name for path in source.iterdir()) == ["pyproject.toml", "shop_client.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(source)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return target


def test_the_client_of_the_page_is_listed_and_its_records_arrive(
    tmp_path: Path, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{installed}{os.pathsep}{os.getcwd()}")
    listed = run_command([sys.executable, "-m", "harness", "list", "clients"])
    assert re.search(r"shop +entry point shop_client", listed.stdout), listed.stderr
    broker = ReferenceBroker(tmp_path)
    try:
        broker.create_topics("shop")
        workload = {"rate_per_s": 500, "consumers": 1, "warmup_ms": 100, "measure_ms": 500, "drain_ms": 60_000}
        load = Load(tmp_path, broker.address, workload, client="shop", topic="shop")
        assert load.finish() == 0, load.events[-2:]
        compact_cell(tmp_path, "c1")
        assert {row["status"] for row in load.rows(SEND.name)} == {SendStatus.ACKED}
        assert len(load.rows(RECV.name)) == len(load.rows(SEND.name)) == 300
        refused = Load(tmp_path / "2", broker.address, workload, {"retries": 3}, client="shop", topic="shop")
        assert refused.finish() == 1
        assert "client shop cannot set retries: the shop does not let you" in refused.events[-1]["message"]
    finally:
        broker.stop()
