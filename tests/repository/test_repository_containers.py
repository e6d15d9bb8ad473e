"""What a container of the image says before it begins; the composition itself is tried by containers/ci."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import pytest

from harness.clusters.ports import free_port
from tests.patience import run_command
from tests.workloads.reference_broker import ReferenceBroker

ROOT = Path(__file__).resolve().parents[2]
STRANGER = 54_321


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can run something as another user")
def test_runs_of_somebody_else_are_told_with_the_user_to_take(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir(mode=0o700)
    tmp_path.chmod(0o755)
    script = (
        "import os, sys, runpy; import chaos.toxiproxy.client\n"  # as root: the checkout may be root's alone
        f"entry = runpy.run_path({str(ROOT / 'containers' / 'entry.py')!r}); os.chdir({str(tmp_path)!r})\n"
        f"os.setgroups([]); os.setgid({STRANGER}); os.setuid({STRANGER}); entry['command'](['list', 'suites'])"
    )
    done = run_command([sys.executable, "-c", script], cwd=ROOT)
    assert done.returncode == 1
    assert f"{tmp_path / 'runs'} belongs to user 0, and this container runs as {STRANGER}" in done.stderr
    assert "HARNESS_USER=0:0" in done.stderr


@pytest.mark.slow
def test_the_load_waits_for_brokers_that_start_with_it_and_not_for_ever(tmp_path: Path) -> None:
    wait_for = runpy.run_path(str(ROOT / "containers" / "entry.py"))["wait_for"]
    nobody = f"127.0.0.1:{free_port()}"
    assert not wait_for(nobody, brokers=1, timeout_s=0.3)
    assert not wait_for("no address", brokers=1, timeout_s=60.0)
    broker = ReferenceBroker(tmp_path)
    try:
        assert wait_for(f"{nobody},{broker.address}", brokers=1, timeout_s=60.0)
        assert not wait_for(broker.address, brokers=2, timeout_s=0.3)
    finally:
        broker.stop()
