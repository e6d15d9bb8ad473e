"""The analysis wherever people install it: strange paths, the C locale, no HOME and few descriptors, all in one run."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import wait_process
from tests.reports.synthetic_run import SyntheticCell, write_run

REPOSITORY = Path(__file__).resolve().parents[2]
STRANGE = "a b#c%20d'e\"é;$f"
DESCRIPTORS = 1_024


def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("HOME", "PYTHONUTF8", "LANG")}
    return {**kept, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "TMPDIR": str(tmp_path)}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
def test_a_report_is_made_below_a_strange_path_without_home_in_the_c_locale(tmp_path: Path) -> None:
    place = tmp_path / STRANGE
    for package in ("reports", "runlog"):
        shutil.copytree(REPOSITORY / package, place / package, ignore=shutil.ignore_patterns("__pycache__"))
    run_dir = write_run(place / "run 50%: ü", [SyntheticCell(cell_id="only", title="größe = “1”").build()])
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "reports", str(run_dir)],
            cwd=place, env=environment(place), stdout=output, stderr=output,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS)),
        )  # fmt: skip
    try:
        wait_process(process, "the end of the analysis", seen=lambda: log.stat().st_size)
    finally:
        process.kill()
    told = log.read_bytes().decode(errors="replace")
    assert process.returncode in (0, 1, 4), told[-3000:]
    assert "größe" in (run_dir / "report.html").read_text(encoding="utf-8")
    assert "ClassNotFound" not in told
