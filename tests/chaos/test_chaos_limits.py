"""Limits, a wrong clock and a failing disk on processes of this host: what the kernel and the page say of them."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.log.disk_faults import parse_control
from chaos import cgroup, memory_group
from chaos.faults import FAULTS
from chaos.faults.base import FaultRun, Parameter
from chaos.faults.disk import ControlFile, ControlPage, NoDiskControl, control_of
from chaos.faults.limits import limit_for, open_descriptors
from chaos.interposer import build, fault_page
from chaos.lease import Lease
from chaos.model import load_builtin
from chaos.ports.security import ProbeAccess
from chaos.reap import reap
from chaos.targets import PartitionOfInterest
from harness.clusters.ports import free_port
from runlog.files.place import here

# Answers each connection with some bytes, and keeps it. It waits in select, as brokers do: a thread that waits in
# accept has its descriptor already.
SERVER = """
import select, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
kept = []
while True:
    select.select([listener], [], [])
    try:
        kept.append(listener.accept()[0])
        kept[-1].sendall(b"12345678")
    except OSError:
        pass
"""
IDLE = "import time\ntime.sleep(600)"
NO_GROUPS = memory_group.problem()


def becomes(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class OneBroker:
    """Broker 1 is a process that listens; a restart is another one."""

    def __init__(self) -> None:
        self.number = free_port()  # also after a restart: no connection of others has it for its own end
        self.broker_ids = (1,)
        self.brokers = self.processes = self.links = self
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", SERVER, str(self.number)])
        assert becomes(lambda: self.answers() == "answered")

    def answers(self) -> str:
        try:
            with socket.create_connection(("127.0.0.1", self.number), timeout=0.5) as connection:
                return "answered" if connection.recv(8) else "closed"
        except OSError:
            return "silent"

    def pids(self) -> dict[int, int]:
        return {1: self.process.pid} if self.is_running(1) else {}

    def is_running(self, broker: int) -> bool:
        return self.process.poll() is None

    def restart(self, broker: int) -> None:
        self.start()

    def leader(self, topic: str, partition: int) -> int:
        return 1

    def plain(self, link: str) -> tuple[Any, str]:
        assert link == "client-1"
        return SimpleNamespace(proxy=lambda name: SimpleNamespace(upstream=f"127.0.0.1:{self.number}")), link

    def probe_access(self, link: str) -> ProbeAccess:
        return ProbeAccess()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def broker() -> Iterator[OneBroker]:
    running = OneBroker()
    yield running
    running.close()


def make(name: str, port: object, lease: Lease | None = None, **parameters: Parameter) -> FaultRun:
    spec = FAULTS[name]
    context = spec.context("leader", port, PartitionOfInterest(topic="t"), lease, "test")  # type: ignore[arg-type]
    return spec.make(context, {**spec.parameters, **parameters})


@pytest.mark.parametrize(
    ("taken", "headroom", "limit"),
    [({0, 1, 2}, 0, 3), ({0, 1, 3}, 0, 2), ({0, 1, 3}, 1, 4), ({0, 2, 4}, 2, 5), (set(), 1, 1)],
)
def test_the_limit_is_the_number_of_the_first_descriptor_that_may_not_be(
    taken: set[int], headroom: int, limit: int
) -> None:
    assert limit_for(frozenset(taken), headroom) == limit


@pytest.mark.slow
def test_a_broker_without_descriptors_answers_nobody_new_until_healed(broker: OneBroker) -> None:
    fault = make("limit_descriptors", broker)
    assert not fault.prove().is_effective
    before = resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE)
    fault.inject()
    proof = fault.prove()
    shown: Any = proof.detail["broker 1"]
    assert proof.is_effective
    assert shown["limit"] == resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE)[0]
    assert shown["limit"] <= max(open_descriptors(broker.process.pid)) + 1
    assert broker.answers() != "answered"
    assert shown["answered before"] == 0
    fault.heal()
    assert resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE) == before
    assert becomes(lambda: broker.answers() == "answered")
    assert not fault.prove().is_effective
    fault.heal()  # may be called twice


@pytest.mark.slow
def test_descriptors_that_a_broker_gets_back_are_taken_by_the_probe(broker: OneBroker) -> None:
    fault = make("limit_descriptors", broker, headroom=3)
    fault.inject()
    proof = fault.prove()
    shown: Any = proof.detail["broker 1"]
    assert proof.is_effective
    assert 1 <= shown["answered before"] <= 3
    fault.heal()


@pytest.mark.slow
def test_a_broker_that_went_down_for_want_of_descriptors_is_started_again(broker: OneBroker) -> None:
    fault = make("limit_descriptors", broker, headroom=500)
    fault.inject()
    assert becomes(lambda: not fault.prove().is_effective)  # it has some left
    broker.close()
    assert fault.prove().is_effective
    fault.heal()
    assert broker.is_running(1)
    assert FAULTS["limit_descriptors"].problem({"headroom": -1})


@pytest.mark.slow
@pytest.mark.skipif(bool(NO_GROUPS), reason=NO_GROUPS)
def test_the_kernel_ends_a_broker_that_may_have_no_more_memory(broker: OneBroker, tmp_path: Path) -> None:
    lease = Lease(tmp_path)
    pid = broker.process.pid
    fault = make("limit_memory", broker, lease)
    fault.inject()
    group = next(Path(entry["path"]) for entry in json.loads(next(tmp_path.glob("*.json")).read_text())["entries"])
    assert group.is_dir()
    for _ in range(20):  # it needs memory for each
        broker.answers()
        if not broker.is_running(1):
            break
    assert becomes(lambda: not broker.is_running(1))
    assert fault.prove().is_effective
    fault.heal()
    assert broker.process.pid != pid
    assert not group.exists()
    lease.close()


@pytest.mark.slow
@pytest.mark.skipif(bool(NO_GROUPS), reason=NO_GROUPS)
def test_a_group_that_a_dead_harness_left_is_removed_and_its_process_lives_on(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", IDLE]) as process:
        try:
            group = memory_group.create(f"{memory_group.PREFIX}{process.pid}", 64 << 20)
            memory_group.add(group, process.pid)
            assert cgroup.memory_bytes_max(process.pid) == 64 << 20
            gone = {"pid": process.pid, "start_ticks": 1}  # that number is another process's now
            entries = [{"kind": "cgroup", "path": str(group), "inode": group.stat().st_ino}]
            document = {"format": 2, "owner": gone, "place": here().as_json(), "entries": entries}
            (tmp_path / "x.json").write_text(json.dumps(document))
            assert reap(tmp_path) == [f"removed control group {group}"]
            assert not group.exists()
            assert process.poll() is None
        finally:
            process.kill()


class ClockPort:
    """Its one broker stamps what is appended by its own clock."""

    def __init__(self, control: Path | None, *, stamps: bool = True) -> None:
        self.broker_ids, self.control, self.stamps = (1, 2), control, stamps
        self.brokers = self.files = self.topics = self

    def fault_page(self, broker: int) -> Path | None:
        return self.control

    def leader(self, topic: str, partition: int) -> int:
        return 1

    def partition_count(self, topic: str) -> int:
        return 1

    def newest_append_time_ms(self, topic: str, partition: int) -> int | None:
        assert self.control is not None
        offset_ns = int.from_bytes(self.control.read_bytes()[:8], sys.byteorder, signed=True)
        return (time.time_ns() + offset_ns) // 1_000_000 if self.stamps else None


@pytest.mark.parametrize("offset_s", [3600, -90])
def test_a_stepped_clock_is_proved_by_what_the_broker_writes(tmp_path: Path, offset_s: int) -> None:
    fault_page.create(tmp_path / "page", tmp_path)
    fault = make("clock_jump", ClockPort(tmp_path / "page"), offset_s=offset_s)
    assert not fault.prove().is_effective
    fault.inject()
    assert fault.prove().is_effective
    fault.heal()
    assert not fault.prove().is_effective


def test_a_clock_that_nobody_can_see_or_step_is_no_proof(tmp_path: Path) -> None:
    fault_page.create(tmp_path / "page", tmp_path)
    fault = make("clock_jump", ClockPort(tmp_path / "page", stamps=False))
    fault.inject()
    assert not fault.prove().is_effective
    with pytest.raises(Exception, match="broker 1 has no clock that can be told to be wrong"):
        make("clock_jump", ClockPort(None)).inject()
    assert FAULTS["clock_jump"].problem({"offset_s": 3})


def test_a_disk_is_told_by_its_control_file_else_by_its_page(tmp_path: Path) -> None:
    def port(file: Path | None, interposed: Path | None) -> Any:
        files = SimpleNamespace(disk_control=lambda broker: file, fault_page=lambda broker: interposed)
        return SimpleNamespace(files=files)

    control = tmp_path / "page"
    fault_page.create(control, tmp_path)
    assert isinstance(control_of(port(tmp_path / "disk.json", control), 1), ControlFile)
    assert isinstance(control_of(port(None, control), 1), ControlPage)
    with pytest.raises(NoDiskControl, match="broker 1's disk cannot be told to fail"):
        control_of(port(None, None), 1)


class DiskPort:
    """Two brokers: 1 has the partition in directory b, 2 has none of it."""

    def __init__(self, directory: Path, *, control: Path | None = None, page: Path | None = None) -> None:
        self.broker_ids, self.directory, self.control, self.page = (1, 2), directory, control, page
        self.current_leader = 1
        self.brokers = self.processes = self.files = self
        self.done: list[str] = []

    def leader(self, topic: str, partition: int) -> int:
        return self.current_leader

    def disk_control(self, broker: int) -> Path | None:
        return self.control

    def fault_page(self, broker: int) -> Path | None:
        return self.page

    def partition_directory(self, broker: int, topic: str, partition: int) -> Path | None:
        return self.directory / "b" / f"{topic}-{partition}" if broker == 1 else None

    def is_running(self, broker: int) -> bool:
        return self.done[-1:] != ["terminate"]

    def terminate(self, broker: int) -> None:
        self.done.append("terminate")

    def restart(self, broker: int) -> None:
        self.done.append("restart")


def test_a_disk_fault_can_strike_only_the_log_directory_of_the_partition(tmp_path: Path) -> None:
    control = tmp_path / "disk.json"
    port = DiskPort(tmp_path, control=control)
    fault = make("disk_error", port, error="EIO", directories="partition")
    fault.inject()
    (rule,) = parse_control(control.read_text())
    assert rule.is_for("write", f"{tmp_path}/b/t-0/0.log")
    assert not rule.is_for("write", f"{tmp_path}/a/t-1/0.log")
    assert not fault.prove().is_effective
    control.with_name("disk.json.seen").write_text('{"write": 1}')
    proof = fault.prove()
    assert proof.is_effective
    assert proof.detail["directories"] == {"broker 1": str(tmp_path / "b")}
    fault.heal()
    assert port.done == ["terminate", "restart"]
    assert not control.exists()


def test_a_broker_that_goes_on_with_another_directory_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.faults.disk.STOP_WITHIN_S", 600.0)
    page, link = tmp_path / "page", tmp_path / "link"
    fault_page.create(page, tmp_path)
    link.symlink_to(tmp_path)
    port = DiskPort(link, page=page)
    fault = make("disk_full", port, directories="partition")
    fault.inject()
    assert f"{tmp_path.resolve()}/b/".encode() in page.read_bytes(), "as the kernel names the files"
    fault_page_done(page)
    began = time.monotonic()
    fault.heal()
    assert time.monotonic() - began < 300
    assert port.done == ["terminate", "restart"]


def fault_page_done(page: Path) -> None:
    """One write was refused."""
    with page.open("r+b") as file:
        file.seek(16)
        file.write((1).to_bytes(8, sys.byteorder))


def test_a_broker_without_the_partition_has_no_directory_to_strike(tmp_path: Path) -> None:
    port = DiskPort(tmp_path, control=tmp_path / "disk.json")
    port.current_leader = 2
    with pytest.raises(NoDiskControl, match="broker 2 has no log of t-0"):
        make("disk_full", port, directories="partition").inject()


def test_where_there_is_no_compiler_faults_on_apache_kafka_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.interposer.build._compiler", lambda: None)
    build.problem.cache_clear()
    try:
        for name in ("clock-jump", "disk-full"):
            scenario = load_builtin(name)
            assert scenario.is_interposed
            assert "install a C compiler" in scenario.host_problem("kafka")
            assert scenario.host_problem("reference") == ""
        assert not load_builtin("leader-kill").is_interposed
    finally:
        monkeypatch.undo()
        build.problem.cache_clear()
