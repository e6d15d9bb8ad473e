"""Leases with real processes and a real server: what a killed owner left is undone, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from chaos.lease import Lease, default_root, is_alive, read_identity, read_state, reap
from chaos.toxiproxy.client import ProxySpec

pytestmark = pytest.mark.slow  # real processes

REPOSITORY = Path(__file__).parents[2]
SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]


def run_owner_and_kill_it(root: Path, body: str) -> list[str]:
    """A process that takes leases, prints what the test needs, and dies by SIGKILL."""
    code = (
        textwrap.dedent(
            """
        import os, subprocess, sys, time
        from pathlib import Path
        from chaos.lease import Lease, read_state
        lease = Lease(Path(sys.argv[1]))
        SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]
        """
        )
        + textwrap.dedent(body)
        + "\nprint('ready', flush=True)\ntime.sleep(60)\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", code, str(root)], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    lines = []
    while (line := owner.stdout.readline().strip()) != "ready":
        assert line or owner.poll() is None
        lines.append(line)
    assert reap(root) == [], "a living owner's things are left alone"
    owner.kill()
    owner.wait()
    return lines


def wait_gone(pid: int) -> bool:
    deadline = time.monotonic() + 3
    while read_identity(pid) is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    return read_identity(pid) is None


def test_process_of_a_killed_owner_is_ended_even_if_it_is_stopped(tmp_path):
    (pid,) = run_owner_and_kill_it(
        tmp_path,
        """
        reservation = lease.reserve_process("sleeper")
        child = subprocess.Popen(SLEEPER, env=os.environ | reservation.environment, start_new_session=True)
        lease.record_process(reservation.entry_id, child.pid)
        lease.add_stopped_process(child.pid)
        os.kill(child.pid, 19)
        while read_state(child.pid) != "T":
            time.sleep(0.01)
        print(child.pid, flush=True)
        """,
    )
    done = reap(tmp_path)
    assert wait_gone(int(pid))
    assert done == [f"continued pid {pid}", f"ended sleeper (pid {pid})"]
    assert list(tmp_path.iterdir()) == []
    assert reap(tmp_path) == []


def test_process_that_was_never_recorded_is_found_by_its_token(tmp_path):
    (pid,) = run_owner_and_kill_it(
        tmp_path,
        """
        reservation = lease.reserve_process("sleeper")
        child = subprocess.Popen(SLEEPER, env=os.environ | reservation.environment, start_new_session=True)
        time.sleep(0.3)
        print(child.pid, flush=True)
        """,
    )
    assert reap(tmp_path) == [f"ended sleeper (pid {pid})"]
    assert wait_gone(int(pid))


def test_a_reused_pid_is_not_touched(tmp_path):
    child = subprocess.Popen(SLEEPER)
    try:
        entry = {"kind": "process", "label": "other", "token": "x", "pid": child.pid, "start_ticks": 1}
        stopped = {"kind": "stopped", "pid": child.pid, "start_ticks": 1}
        os.kill(child.pid, signal.SIGSTOP)
        time.sleep(0.1)
        owner = {"pid": 4_000_000, "start_ticks": 1}
        (tmp_path / "4000000-1-ab.json").write_text(json.dumps({"owner": owner, "entries": [entry, stopped]}))
        assert reap(tmp_path) == []
        assert read_state(child.pid) == "T"
    finally:
        child.kill()
        child.wait()


def test_proxies_and_toxics_of_a_killed_owner_are_healed(tmp_path, embedded_server, echo_upstream):
    client = embedded_server.client()
    for name in ("cut", "slow"):
        client.create(ProxySpec(name=name, upstream=echo_upstream.address))
    run_owner_and_kill_it(
        tmp_path,
        f"""
        lease.add_proxy_disabled({client.url!r}, "cut")
        lease.add_toxic({client.url!r}, "slow", "t")
        lease.add_toxic({client.url!r}, "gone", "t")
        lease.add_toxic("http://127.0.0.1:1", "slow", "t")
        """,
    )
    client.disable("cut")
    client.add_toxic("slow", "latency", {"latency": 5}, name="t")
    done = reap(tmp_path)
    assert client.proxy("cut").is_enabled
    assert client.toxics("slow") == {}
    assert done == [f"removed toxic t of slow at {client.url}", f"enabled proxy cut at {client.url}"]
    for name in ("cut", "slow"):
        client.delete(name)
    client.close()


def test_proxies_on_a_server_that_is_not_ours_are_deleted(tmp_path, embedded_server, echo_upstream):
    client = embedded_server.client()
    for name in ("leased", "of-somebody-else"):
        client.create(ProxySpec(name=name, upstream=echo_upstream.address))
    run_owner_and_kill_it(tmp_path, f"lease.add_proxy({embedded_server.url!r}, 'leased')")
    assert reap(tmp_path) == [f"deleted proxy leased at {embedded_server.url}"]
    assert "leased" not in client.proxies()
    client.delete("of-somebody-else")


def test_entries_are_on_disk_before_the_call_returns_and_vanish_when_undone(tmp_path):
    lease = Lease(tmp_path)
    reservation = lease.reserve_process("broker 1")
    (path,) = tmp_path.glob("*.json")
    (entry,) = json.loads(path.read_text())["entries"]
    assert (entry["kind"], entry["label"]) == ("process", "broker 1")
    lease.remove(reservation.entry_id)
    lease.remove(reservation.entry_id)
    assert json.loads(path.read_text())["entries"] == []
    assert reap(tmp_path) == []  # the owner, this process, is alive
    lease.close()
    assert list(tmp_path.iterdir()) == []


def test_unreadable_leases_are_set_aside(tmp_path):
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_text('{"owner": 5}')
    assert len(reap(tmp_path)) == 2
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".broken", ".broken"]


def test_root_follows_the_environment():
    assert default_root({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/kafka-harness/leases")
    assert default_root({"HOME": "/h"}) == Path("/h/.local/state/kafka-harness/leases")
    assert reap(Path("/nonexistent/leases")) == []


def test_identity_survives_strange_process_names(tmp_path):
    command = tmp_path / "a) R 1 (b"
    command.symlink_to(shutil.which("sleep"))
    child = subprocess.Popen([command, "30"])
    try:
        time.sleep(0.1)
        identity = read_identity(child.pid)
        assert identity is not None
        assert is_alive(identity)
        assert read_state(child.pid) == "S"
    finally:
        child.kill()
        child.wait()
    assert not is_alive(identity)
