"""A worker does not outlive the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
PARENT = textwrap.dedent("""
    from broker.sim.workers import pool_of
    if __name__ == "__main__":
        pool = pool_of(2)
        print(list(pool.map(abs, range(40))), flush=True)
        input()
""")


@pytest.mark.slow
def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen(
        [sys.executable, str(script)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline()  # the workers have worked
        workers = psutil.Process(parent.pid).children(recursive=True)
        assert len(workers) >= 2
        parent.send_signal(signal.SIGKILL)
        parent.wait(60)
        _, alive = psutil.wait_procs(workers, timeout=60)
        assert alive == []
    finally:
        parent.kill()
        parent.communicate(timeout=60)
