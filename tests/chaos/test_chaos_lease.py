"""Leases with real processes and a real server: what a killed owner left is undone, and nothing else."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from chaos.lease import TOKEN_VARIABLE, Lease, default_root, is_alive, read_identity, read_state
from chaos.lease_file import read_lease
from chaos.process_identity import read_token
from chaos.reap import left_alone, left_on_clusters, reap, settle
from chaos.toxiproxy.states import ProxySpec
from runlog.files.place import Place, here
from tests.patience import run_command

pytestmark = pytest.mark.slow  # real processes

REPOSITORY = Path(__file__).parents[2]
SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


def run_owner_and_kill_it(root: Path, body: str) -> list[str]:
    """A process that takes leases, prints what the test needs, and dies by SIGKILL."""
    code = (
        textwrap.dedent(
            """
        import os, subprocess, sys, time
        from pathlib import Path
        from chaos.lease import Lease, read_state
        from chaos.process_identity import read_token
        lease = Lease(Path(sys.argv[1]))
        SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]
        """
        )
        + textwrap.dedent(body)
        + "\nprint('ready', flush=True)\ntime.sleep(600)\n"
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
    deadline = time.monotonic() + 60
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
        while read_token(child.pid) is None:
            time.sleep(0.01)
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
        while read_token(child.pid) is None:
            time.sleep(0.01)
        print(child.pid, flush=True)
        """,
    )
    assert reap(tmp_path) == [f"ended sleeper (pid {pid})"]
    assert wait_gone(int(pid))


GONE = {"pid": 4_000_000, "start_ticks": 1}
OTHER_NAMESPACE = {**here().as_json(), "pid_namespace": "pid:[1]"}
OTHER_HOST = {**here().as_json(), "host": "another", "boot_id": "b", "machine": "m"}
TOKEN = secrets.token_hex(16)  # another run of these tests on this machine finds none of our processes by it


def plant(root: Path, *entries: dict[str, object], place: object = None, owner: object = None, **more: object) -> Path:
    """As a lease of an owner that is gone would be."""
    root.mkdir(mode=0o700, exist_ok=True)
    path = root / "4000000-1-ab.json"
    document = {"format": 2, "owner": owner or GONE, "place": place or here().as_json(), "entries": entries, **more}
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    return path


def wait_for_environment(pid: int) -> None:
    """The kernel tells that a program runs a moment before /proc has its environment."""
    deadline = time.monotonic() + 60
    while read_token(pid) is None:
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture
def sleeper():
    """Of our user, with a token of its own; the test says what a lease tells of it."""
    child = subprocess.Popen(SLEEPER, env=os.environ | {TOKEN_VARIABLE: TOKEN})
    try:
        wait_for_environment(child.pid)
        yield read_identity(child.pid)
    finally:
        child.kill()
        child.wait()


def entry_of(identity, kind="process", **changed):
    return {
        "kind": kind,
        "label": "s",
        "token": TOKEN,
        "pid": identity.pid,
        "start_ticks": identity.start_ticks,
    } | changed


@pytest.mark.parametrize(
    "changed",
    [
        {"start_ticks": 1},  # the pid was used again
        {"token": "f" * 32},
        {"token": ""},
        {"token": None, "pid": None},
        {"token": "", "pid": None, "start_ticks": None},
    ],
)
def test_a_planted_lease_ends_no_process_that_was_not_started_by_its_writer(tmp_path, sleeper, changed):
    os.kill(sleeper.pid, signal.SIGSTOP)
    while read_state(sleeper.pid) != "T":
        time.sleep(0.01)
    plant(tmp_path, entry_of(sleeper, **changed), entry_of(sleeper, "stopped", **changed))
    assert reap(tmp_path) == []
    assert read_state(sleeper.pid) == "T"


def test_a_lease_that_tells_all_of_its_process_ends_it(tmp_path, sleeper):
    plant(tmp_path, entry_of(sleeper))
    assert reap(tmp_path) == [f"ended s (pid {sleeper.pid})"]


@pytest.mark.parametrize("place", [OTHER_NAMESPACE, OTHER_HOST, {**OTHER_NAMESPACE, "boot_id": ""}])
def test_a_lease_of_another_place_is_not_acted_on_and_stays(tmp_path, sleeper, embedded_server, echo_upstream, place):
    client = embedded_server.client()
    client.create(ProxySpec(name="theirs", upstream=echo_upstream.address))
    proxy = {"kind": "proxy", "url": client.url, "proxy": "theirs", "upstream": echo_upstream.address}
    path = plant(tmp_path, entry_of(sleeper), proxy, place=place)
    assert reap(tmp_path) == []
    assert is_alive(sleeper)
    assert "theirs" in client.proxies()
    assert path.exists()
    (line,) = left_alone(tmp_path)
    assert "cannot be seen from here" in line
    client.delete("theirs")
    client.close()


def test_a_lease_of_an_older_harness_is_not_acted_on(tmp_path, sleeper):
    path = plant(tmp_path, entry_of(sleeper), format=1)
    assert reap(tmp_path) == []
    assert is_alive(sleeper)
    assert left_alone(tmp_path) == [
        f"left alone {path}: an older harness wrote it; remove it when no run of that one goes on"
    ]


def test_after_a_restart_of_the_machine_processes_are_forgotten_and_proxies_healed(
    tmp_path, sleeper, embedded_server, echo_upstream, monkeypatch
):
    machine = Place(host=here().host, machine="m", boot_id="now", pid_namespace=here().pid_namespace)
    monkeypatch.setattr("chaos.reap.here", lambda: machine)
    client = embedded_server.client()
    client.create(ProxySpec(name="cut", upstream=echo_upstream.address))
    client.disable("cut")
    off = {"kind": "proxy_disabled", "url": client.url, "proxy": "cut", "upstream": echo_upstream.address}
    path = plant(tmp_path, entry_of(sleeper), off, place={**machine.as_json(), "boot_id": "before"})
    assert reap(tmp_path) == [f"enabled proxy cut at {client.url}"]
    assert is_alive(sleeper)
    assert not path.exists()
    client.delete("cut")
    client.close()


def test_a_planted_path_removes_no_foreign_control_group(tmp_path, monkeypatch):
    monkeypatch.setattr("chaos.memory_group.ROOT", tmp_path / "cgroup")
    parent = tmp_path / "cgroup" / "memory"
    for path in (parent / "kafka-harness-7", parent / "user.slice", parent / "below" / "kafka-harness-8"):
        path.mkdir(parents=True)
    (parent / "memory.limit_in_bytes").touch()

    def reaped(path: Path, inode: int) -> list[str]:
        plant(tmp_path / "leases", {"kind": "cgroup", "path": str(path), "inode": inode})
        return reap(tmp_path / "leases")

    ours = parent / "kafka-harness-7"
    for path in (parent / "user.slice", parent / "below" / "kafka-harness-8", parent / "below" / ".." / ours.name):
        assert reaped(path, path.stat().st_ino) == [f"left alone {path}: it is no control group that a run has made"]
    assert reaped(ours, ours.stat().st_ino + 1) == [f"left alone {ours}: it is no control group that a run has made"]
    assert reaped(ours, ours.stat().st_ino) == [f"removed control group {ours}"]
    assert reaped(ours, 1) == []


def test_topics_of_an_owner_that_is_gone_wait_for_clean_and_are_told_of(tmp_path):
    topic = {"kind": "topic", "bootstrap_servers": "b:1", "topic": "harness-x", "topic_id": "i"}
    path = plant(tmp_path, {"kind": "process", "label": "p", "token": TOKEN}, topic)
    told = ["1 topic of an ended run on b:1: `harness clean` deletes what is still there"]
    assert reap(tmp_path) == []
    assert left_on_clusters(tmp_path) == told
    assert [entry.kind for entry in read_lease(path).entries] == ["topic"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert settle(tmp_path, lambda entry: "nobody answers") == ["topic harness-x at b:1 stays: nobody answers"]
    assert settle(tmp_path, lambda entry: "") == ["deleted topic harness-x at b:1"]
    assert list(tmp_path.iterdir()) == []


def test_groups_of_an_owner_that_is_gone_go_before_the_topics_that_they_read(tmp_path):
    topics = [
        {"kind": "topic", "bootstrap_servers": "b:1", "topic": f"harness-{name}", "topic_id": "i"} for name in "xy"
    ]
    group = {"kind": "group", "bootstrap_servers": "b:1", "group": "harness-x-app", "settings": "a,b"}
    path = plant(tmp_path, *topics, group)
    assert left_on_clusters(tmp_path) == [
        "2 topics and 1 group of an ended run on b:1: `harness clean` deletes what is still there"
    ]
    assert reap(tmp_path) == []
    seen = []
    settle(tmp_path, lambda entry: seen.append((entry.topic, entry.group, entry.settings)) or "nobody answers")
    assert seen == [("", "harness-x-app", ("a", "b")), ("harness-x", "", ()), ("harness-y", "", ())]
    assert len(read_lease(path).entries) == 3
    assert settle(tmp_path, lambda entry: "")[0] == "deleted group harness-x-app at b:1"
    assert list(tmp_path.iterdir()) == []


def test_topics_are_settled_beside_what_reap_had_no_time_for(tmp_path):
    topic = {"kind": "topic", "bootstrap_servers": "b:1", "topic_id": "i"}
    toxic = {"kind": "toxic", "url": "http://127.0.0.1:1", "proxy": "p", "upstream": "u", "toxic": "t"}
    path = plant(tmp_path, toxic, {**topic, "topic": "harness-x"}, {**topic, "topic": "harness-y"})
    settle(tmp_path, lambda entry: "refused" if entry.topic == "harness-y" else "")
    assert [(entry.kind, entry.topic) for entry in read_lease(path).entries] == [("toxic", ""), ("topic", "harness-y")]
    settle(tmp_path, lambda entry: "")
    assert [entry.kind for entry in read_lease(path).entries] == ["toxic"], "the fault is still to be healed"


def test_an_entry_that_cannot_be_written_is_not_there_and_what_is_healed_stays_healed(tmp_path):
    """The disk of the state directory fails, here by a file in the directory's place."""
    root = tmp_path / "leases"
    lease = Lease(root)
    healed, kept = lease.reserve_process("healed"), lease.reserve_process("kept")
    shutil.rmtree(root)
    root.write_text("")
    with pytest.raises(OSError, match="leases"):
        lease.reserve_process("never started")
    with pytest.raises(OSError, match="leases"):
        lease.record_process(kept.entry_id, os.getpid())
    lease.remove(healed.entry_id)
    root.unlink()
    lease.add_stopped_process(os.getpid())
    (path,) = root.glob("*.json")
    assert [(entry.label, entry.pid) for entry in read_lease(path).entries] == [("kept", None), ("", os.getpid())]


def test_topics_that_could_not_be_deleted_stay_written_down_when_their_run_ends(tmp_path):
    lease = Lease(tmp_path)
    lease.reserve_process("broker 1")
    entry = lease.reserve_topic("b:1", "harness-x")
    lease.record_topic(entry, "i")
    lease.reserve_group("b:1", "harness-x-app", ["a", "b"])
    lease.close()
    assert settle(tmp_path, lambda entry: "") == [], "its owner, this process, is alive"
    (path,) = tmp_path.glob("*.json")
    assert [(entry.topic_id, entry.group, entry.settings) for entry in read_lease(path).entries] == [
        ("i", "", ()),
        ("", "harness-x-app", ("a", "b")),
    ]


def test_state_is_for_its_owner_alone(tmp_path):
    root = tmp_path / "state" / "leases"
    lease = Lease(root)
    lease.reserve_process("broker 1")
    (path,) = root.glob("*.json")
    assert (root.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
    lease.close()
    root.chmod(0o755)
    Lease(root)
    assert root.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_a_directory_or_lease_of_another_user_is_not_used(tmp_path, sleeper):
    path = plant(tmp_path / "own", entry_of(sleeper))
    os.chown(path, 12345, 12345)
    assert reap(tmp_path / "own") == [
        f"set aside unreadable lease {path.name}: it belongs to user 12345, not to {os.getuid()}"
    ]
    plant(tmp_path / "theirs", entry_of(sleeper))
    os.chown(tmp_path / "theirs", 12345, 12345)
    (line,) = reap(tmp_path / "theirs")
    assert "set XDG_STATE_HOME to a directory of your own" in line
    with pytest.raises(PermissionError, match="of user 12345"):
        Lease(tmp_path / "theirs")
    (tmp_path / "link").symlink_to(tmp_path / "own")
    with pytest.raises(PermissionError, match="a symbolic link"):
        Lease(tmp_path / "link")
    assert is_alive(sleeper)


def test_proxies_and_toxics_of_a_killed_owner_are_healed(tmp_path, embedded_server, echo_upstream):
    client = embedded_server.client()
    for name in ("cut", "slow", "of-another-run"):
        client.create(ProxySpec(name=name, upstream=echo_upstream.address))
    run_owner_and_kill_it(
        tmp_path,
        f"""
        lease.add_proxy_disabled({client.url!r}, "cut", {echo_upstream.address!r})
        lease.add_proxy_disabled({client.url!r}, "of-another-run", "127.0.0.1:1")
        lease.add_toxic({client.url!r}, "slow", {echo_upstream.address!r}, "t")
        lease.add_toxic({client.url!r}, "of-another-run", "127.0.0.1:1", "t")
        lease.add_toxic({client.url!r}, "gone", {echo_upstream.address!r}, "t")
        lease.add_toxic("http://127.0.0.1:1", "slow", {echo_upstream.address!r}, "t")
        """,
    )
    for name in ("cut", "of-another-run"):
        client.disable(name)
    for name in ("slow", "of-another-run"):
        client.add_toxic(name, "latency", {"latency": 5}, name="t")
    done = reap(tmp_path)
    assert client.proxy("cut").is_enabled
    assert client.toxics("slow") == {}
    left = f"left alone proxy of-another-run at {client.url}: it leads elsewhere than the one that the run made"
    assert done == [
        left, f"removed toxic t of slow at {client.url}", left, f"enabled proxy cut at {client.url}",
    ]  # fmt: skip
    assert not client.proxy("of-another-run").is_enabled
    assert "t" in client.toxics("of-another-run")
    for name in ("cut", "slow", "of-another-run"):
        client.delete(name)
    client.close()


def test_proxies_on_a_server_that_is_not_ours_are_deleted(tmp_path, embedded_server, echo_upstream):
    client = embedded_server.client()
    for name in ("leased", "of-somebody-else"):
        client.create(ProxySpec(name=name, upstream=echo_upstream.address))
    upstream = echo_upstream.address
    run_owner_and_kill_it(
        tmp_path,
        f"""
        lease.add_proxy({embedded_server.url!r}, "leased", {upstream!r})
        lease.add_proxy({embedded_server.url!r}, "of-somebody-else", "127.0.0.1:1")
        """,
    )
    assert reap(tmp_path) == [
        f"left alone proxy of-somebody-else at {client.url}: it leads elsewhere than the one that the run made",
        f"deleted proxy leased at {embedded_server.url}",
    ]
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


def test_an_owner_that_is_killed_while_it_writes_its_lease_leaves_no_file(tmp_path):
    code = """
import os, signal, sys
from pathlib import Path
from chaos.lease import Lease
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
Lease(Path(sys.argv[1])).reserve_process("sleeper")
"""
    owner = run_command([sys.executable, "-c", code, str(tmp_path)], cwd=REPOSITORY)
    assert owner.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 1
    assert reap(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_root_follows_the_environment():
    assert default_root({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/kafka-harness/leases")
    assert default_root({"HOME": "/h"}) == Path("/h/.local/state/kafka-harness/leases")
    assert default_root({}).parent.name == f"kafka-harness-{os.getuid()}", "no name in /tmp that another user may take"
    assert reap(Path("/nonexistent/leases")) == []


def test_identity_survives_strange_process_names(tmp_path):
    command = tmp_path / "a) R 1 (b"
    command.symlink_to(shutil.which("sleep"))
    child = subprocess.Popen([command, "600"])
    try:
        identity = read_identity(child.pid)
        assert identity is not None
        assert is_alive(identity)
        deadline = time.monotonic() + 60
        while read_state(child.pid) != "S" and time.monotonic() < deadline:  # until it sleeps
            time.sleep(0.01)
        assert read_state(child.pid) == "S"
    finally:
        child.kill()
        child.wait()
    assert not is_alive(identity)
