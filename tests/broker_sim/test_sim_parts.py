"""The simulated clock, disk and network keep their word."""

from __future__ import annotations

import asyncio
import errno
import random
import select
from collections.abc import Callable

import pytest

from broker.log.filesystem import File
from broker.sim.coverage import EXPECTED, Coverage
from broker.sim.disk import Death, Failure, SimDisk
from broker.sim.filesystem import SimFile, SimFileSystem
from broker.sim.loop import SimLoop
from broker.sim.network import Network
from broker.sim.scheduler import Scheduler
from broker.sim.sockets import Machine, SimSocket


def new_disk(seed: int = 1) -> SimDisk:
    return SimDisk(scheduler=Scheduler(), rng=random.Random(seed), name="disk")


# -- disk


def new_file(disk: SimDisk) -> File:
    """With an entry that is on the disk."""
    filesystem = SimFileSystem(disk)
    file = filesystem.open("/d/a")
    filesystem.sync_directory("/d")
    return file


def test_what_was_synced_survives_a_loss_of_power() -> None:
    for seed in range(50):
        disk = new_disk(seed)
        file = new_file(disk)
        file.write_at(0, b"first")
        file.sync()
        file.write_at(5, b" second")
        disk.lose_power()
        content = SimFileSystem(disk).read_bytes("/d/a")
        assert content.startswith(b"first")
        assert len(content) <= len(b"first second")


def test_what_was_not_synced_is_lost_kept_or_torn() -> None:
    found = set()
    for seed in range(200):
        disk = new_disk(seed)
        new_file(disk).write_at(0, b"x" * 1000)
        disk.lose_power()
        content = SimFileSystem(disk).read_bytes("/d/a")
        found.add("lost" if not content else "kept" if content == b"x" * 1000 else "torn")
    assert found == {"lost", "kept", "torn"}


def test_a_loss_of_power_with_little_at_risk_leaves_most_writes() -> None:
    disk = new_disk()
    file = new_file(disk)
    for number in range(400):
        file.write_at(number * 10, b"0123456789")
    disk.lose_power(0.04)
    content = SimFileSystem(disk).read_bytes("/d/a")
    damaged = sum(content[each * 10 : each * 10 + 10] != b"0123456789" for each in range(400))
    assert 1 <= damaged <= 40


def test_power_goes_within_an_operation_when_it_may_and_not_when_that_was_planned() -> None:
    disk, lost = new_disk(), list[str]()
    allowed = {"now": False}
    disk.death = Death(operations=2, die=lambda: lost.append("power"), is_time=lambda: allowed["now"])
    file = SimFileSystem(disk).open("/d/a")  # the first operation
    file.write_at(0, b"others are down")
    file.sync()
    assert lost == []
    assert SimFileSystem(disk).read_bytes("/d/a") == b"others are down"
    allowed["now"] = True
    file.write_at(15, b", now all are up")
    assert (lost, disk.death) == (["power"], None)
    file.sync()
    assert lost == ["power"]


def test_killing_a_process_loses_nothing_and_its_file_system_takes_no_more() -> None:
    disk = new_disk()
    filesystem = SimFileSystem(disk)
    file = filesystem.open("/d/a")
    file.write_at(0, b"kept")
    filesystem.detach()
    file.write_at(0, b"dead")
    file.truncate(0)
    filesystem.remove("/d/a")
    filesystem.write_atomically("/d/b", b"dead")
    assert SimFileSystem(disk).read_bytes("/d/a") == b"kept"
    assert not SimFileSystem(disk).exists("/d/b")


def test_a_replaced_file_is_the_old_or_the_new_one_until_its_directory_is_synced() -> None:
    found = set()
    for seed in range(40):
        disk = new_disk(seed)
        filesystem = SimFileSystem(disk)
        filesystem.write_atomically("/d/a", b"old")
        filesystem.sync_directory("/d")
        filesystem.write_atomically("/d/a", b"new")
        disk.lose_power()
        found.add(SimFileSystem(disk).read_bytes("/d/a"))
        filesystem = SimFileSystem(disk)
        filesystem.write_atomically("/d/a", b"newer")
        filesystem.sync_directory("/d")
        disk.lose_power()
        assert SimFileSystem(disk).read_bytes("/d/a") == b"newer"
    assert found == {b"old", b"new"}


def test_entries_of_a_directory_are_lost_from_the_last_backwards_until_it_is_synced() -> None:
    """A created file goes, though its content was synced; a removed or renamed one comes back under its old name."""
    found = set()
    for seed in range(200):
        disk = new_disk(seed)
        filesystem = SimFileSystem(disk)
        filesystem.make_directory("/d/t-0")
        for name in ("removed", "renamed"):
            filesystem.write_atomically(f"/d/t-0/{name}", name.encode())
        filesystem.sync_directory("/d/t-0")
        filesystem.sync_directory("/d")
        filesystem.remove("/d/t-0/removed")
        filesystem.rename("/d/t-0/renamed", "/d/t-0/other")
        created = filesystem.open("/d/t-0/created")
        created.write_at(0, b"created")
        created.sync()
        disk.lose_power(1.0)
        found.add(tuple(SimFileSystem(disk).list_directory("/d/t-0")))
        assert all(content in (b"removed", b"renamed", b"created") for content in disk.files.values())
    steps = {("removed", "renamed"), ("renamed",), ("other",), ("created", "other")}
    assert found == steps, "each of them a state that there was, none that there was not"


def test_a_directory_whose_parent_was_not_synced_may_be_gone_with_all_that_is_in_it() -> None:
    found = set()
    for seed in range(40):
        disk = new_disk(seed)
        filesystem = SimFileSystem(disk)
        filesystem.make_directory("/d/t-0")
        filesystem.open("/d/t-0/a").sync()
        filesystem.sync_directory("/d/t-0")
        disk.lose_power(1.0)
        found.add(SimFileSystem(disk).exists("/d/t-0/a"))
    assert found == {True, False}


def test_a_write_fails_half_way_when_told_to() -> None:
    disk = new_disk()
    file = SimFileSystem(disk).open("/data/t-0/0.log")
    disk.failures.append(Failure(call="write", where="/t-0/", error=errno.ENOSPC, skip=1))
    file.write_at(0, b"whole")
    with pytest.raises(OSError, match="No space"):
        file.write_at(5, b"12345678")
    assert file.size_bytes() == 9
    file.write_at(9, b"again")  # the failure was one


@pytest.mark.parametrize("call", ["open", "read", "sync", "truncate", "replace", "syncdir"])
def test_every_kind_of_call_can_fail_and_only_where_it_was_told_to(call: str) -> None:
    disk = new_disk()
    filesystem = SimFileSystem(disk)
    file, other = filesystem.open("/data/t-0/0.log"), filesystem.open("/data/t-1/0.log")
    disk.failures.append(Failure(call=call, where="/t-0/", error=errno.EIO, is_once=False))

    def calls(path: str, opened: SimFile) -> dict[str, Callable[[], object]]:
        return {
            "open": lambda: filesystem.open(f"{path}/0.log"),
            "read": lambda: opened.read_at(0, 1),
            "sync": opened.sync,
            "truncate": lambda: opened.truncate(0),
            "replace": lambda: filesystem.write_atomically(f"{path}/quorum-state", b"x"),
            "syncdir": lambda: filesystem.sync_directory(path),
        }

    for name in calls("/data/t-1", other):
        calls("/data/t-1", other)[name]()
        if name != call:
            calls("/data/t-0", file)[name]()
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            calls("/data/t-0", file)[call]()


# -- clock and loop


def test_timers_run_in_order_on_a_clock_of_their_own() -> None:
    scheduler = Scheduler()
    network = Network(scheduler=scheduler, rng=random.Random(1))
    slow = SimLoop(scheduler=scheduler, network=network, host="slow", clock_rate=0.5)  # type: ignore[abstract]
    quick = SimLoop(scheduler=scheduler, network=network, host="quick", clock_rate=2.0)  # type: ignore[abstract]
    order: list[str] = []
    slow.call_later(1.0, order.append, "slow")
    quick.call_later(1.0, order.append, "quick")
    cancelled = quick.call_later(0.1, order.append, "never")
    cancelled.cancel()
    scheduler.run(until_us=10_000_000, is_done=lambda: len(order) == 2, events_max=100)
    assert order == ["quick", "slow"]
    assert scheduler.now_us == 2_000_001


def test_a_dead_process_does_nothing_and_a_paused_one_does_it_later() -> None:
    scheduler = Scheduler()
    network = Network(scheduler=scheduler, rng=random.Random(1))
    dead = SimLoop(scheduler=scheduler, network=network, host="dead")  # type: ignore[abstract]
    paused = SimLoop(scheduler=scheduler, network=network, host="paused")  # type: ignore[abstract]
    ran: list[tuple[str, int]] = []
    dead.call_later(0.1, lambda: ran.append(("dead", scheduler.now_us)))
    paused.call_later(0.1, lambda: ran.append(("paused", scheduler.now_us)))
    dead.kill()
    paused.pause(700_000)
    scheduler.run(until_us=2_000_000, is_done=lambda: False, events_max=100)
    assert ran == [("paused", 700_000)]


# -- network


class Echo(asyncio.BufferedProtocol):
    """Keeps what comes, and how it ended."""

    def __init__(self) -> None:
        self.received = b""
        self.ended: list[Exception | None] = []
        self._buffer = bytearray(7)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.append(exc)


class Pair:
    """A client connected to a server."""

    def __init__(self, seed: int = 1) -> None:
        self.scheduler = Scheduler()
        self.network = Network(scheduler=self.scheduler, rng=random.Random(seed))
        self.network.own_port(9, "server")
        self.here = SimLoop(scheduler=self.scheduler, network=self.network, host="client")  # type: ignore[abstract]
        self.there = SimLoop(scheduler=self.scheduler, network=self.network, host="server")  # type: ignore[abstract]
        self.client, self.server = Echo(), Echo()
        self.network.listen(self.there, 9, lambda: self.server)
        self.failure: OSError | None = None
        self.here.run_callback(lambda: self.here.create_task(self._connect()))
        self.advance(10_000)

    async def _connect(self) -> None:
        try:
            await self.here.create_connection(lambda: self.client, "127.0.0.1", 9)
        except OSError as error:
            self.failure = error

    def advance(self, delay_us: int) -> None:
        self.scheduler.run(until_us=self.scheduler.now_us + delay_us, is_done=lambda: False, events_max=100_000)

    def send(self, data: bytes) -> None:
        self.here.run_callback(lambda: self.client.transport.write(data))


def test_a_connection_that_its_server_closes_at_once_is_made_and_then_ended() -> None:
    # Seed 4673 once: the end overtook the beginning, and the client's thread polled for ever.
    for seed in range(20):
        pair = Pair(seed)
        pair.network.stop_listening(9)
        pair.network.listen(pair.there, 9, ClosesAtOnce)
        socket = SimSocket(Machine(scheduler=pair.scheduler, network=pair.network, loop=pair.here, step=lambda: None))
        with pytest.raises(BlockingIOError):
            socket.connect(("127.0.0.1", 9))
        pair.advance(1_000_000)
        both = select.POLLIN | select.POLLOUT
        assert socket.ready_mask(both) == both
        assert socket.recv_into(memoryview(bytearray(9))) == 0


class ClosesAtOnce(Echo):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.close()


def test_bytes_arrive_in_order_however_they_are_split() -> None:
    for seed in range(20):
        pair = Pair(seed)
        sent = b"".join(b"message %d " % number for number in range(50))
        for number in range(50):
            pair.send(b"message %d " % number)
        pair.advance(1_000_000)
        assert pair.server.received == sent


def test_a_cut_link_holds_bytes_one_way_until_it_heals() -> None:
    pair = Pair()
    pair.network.cut("client", "server")
    pair.send(b"held")
    pair.there.run_callback(lambda: pair.server.transport.write(b"back"))
    pair.advance(1_000_000)
    assert (pair.server.received, pair.client.received) == (b"", b"back")
    pair.network.heal("client", "server")
    pair.advance(1_000_000)
    assert pair.server.received == b"held"


def test_a_stalled_connection_holds_bytes_that_arrive_after_their_sender_died() -> None:
    pair = Pair()
    assert pair.network.stall("client", "server", 500_000) == 1
    pair.send(b"late")
    pair.there.run_callback(lambda: pair.server.transport.write(b"back"))
    pair.advance(100_000)
    assert (pair.server.received, pair.client.received) == (b"", b"back")
    pair.here.kill()
    pair.network.process_died(pair.here, with_power=True)
    pair.advance(100_000)
    assert (pair.server.received, pair.server.ended) == (b"", [])
    pair.advance(1_000_000)
    assert pair.server.received == b"late"
    assert len(pair.server.ended) == 1


@pytest.mark.parametrize("with_power", [True, False])
def test_what_a_process_writes_in_the_event_in_which_it_dies_is_lost(with_power: bool) -> None:
    # Seed 816 once: an answer left in the event in which the power went, so nobody had seen what it told of.
    pair = Pair()
    pair.send(b"before, ")
    pair.advance(1)
    pair.send(b"of that event")
    pair.here.kill()
    pair.network.process_died(pair.here, with_power=with_power)
    pair.send(b", after its death")
    pair.advance(1_000_000)
    assert pair.server.received == b"before, "


def test_a_broken_connection_ends_on_both_sides() -> None:
    pair = Pair()
    assert pair.network.break_connections("client", "server") == 1 or pair.client.ended
    pair.advance(1_000_000)
    assert len(pair.client.ended) == len(pair.server.ended) == 1
    assert isinstance(pair.client.ended[0], OSError)


def test_a_killed_process_resets_its_connections_and_a_host_without_power_is_silent() -> None:
    killed, silent = Pair(), Pair()
    killed.there.kill()
    killed.network.process_died(killed.there, with_power=True)
    killed.advance(1_000_000)
    assert len(killed.client.ended) == 1
    silent.there.kill()
    silent.network.process_died(silent.there, with_power=False)
    silent.network.dead_hosts.add("server")
    silent.send(b"into the void")
    silent.advance(1_000_000)
    assert silent.client.ended == []
    silent.network.dead_hosts.discard("server")  # the host is back, and knows nothing of the connection
    silent.send(b"hello?")
    silent.advance(1_000_000)
    assert len(silent.client.ended) == 1


def test_a_port_without_a_listener_refuses() -> None:
    pair = Pair()
    pair.network.stop_listening(9)
    pair.here.run_callback(lambda: pair.here.create_task(pair._connect()))
    pair.advance(1_000_000)
    assert isinstance(pair.failure, ConnectionRefusedError)


# -- coverage


def test_a_state_that_is_not_in_the_table_cannot_be_counted() -> None:
    coverage = Coverage()
    with pytest.raises(AssertionError, match="not in the table"):
        coverage.reached("something else")
    assert coverage.missing() == list(EXPECTED)
