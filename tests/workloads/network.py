"""Hosts in network namespaces of their own, and a network between them with a delay, jitter and cuts.

Each host has one device. Its other end is in the router, a process that passes IP packets on: later by the delay, in
order for each pair of hosts, or not at all while the pair is cut. So it works where the kernel has no netem. The
namespace where the test runs is on the network too, as the host `here`.
It needs root. Nothing of it outlives the test. Shown by tests/workloads/test_workloads_namespace.py.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import json
import os
import random
import re
import selectors
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from tests.workloads.namespace import HOLDER, WAIT_S, NamespaceError, skewed, why_not

HERE: Final = "here"
_HOSTS_MAX: Final = 200  # a subnet has 256 addresses
_MTU: Final = 16_000  # fewer packets than with 1,500, and the router is Python
_QUEUED_MAX: Final = 20_000  # packets under way; more are lost, as in a router
_TUNSETIFF: Final = 0x400454CA
_TUN_WITHOUT_HEADER: Final = 0x0001 | 0x1000


def why_no_network() -> str:
    """Why no such network can be made here; empty if it can."""
    if why := why_not():
        return why
    try:
        Network([], delay_ms=0, jitter_ms=0).close()
    except (NamespaceError, OSError, subprocess.SubprocessError) as error:
        return f"no network of namespaces here: {str(error)[-200:]}"
    return ""


class Network:
    """`delay_ms` and up to `jitter_ms` more in each direction, between any two hosts."""

    def __init__(self, names: Sequence[str], *, delay_ms: float, jitter_ms: float) -> None:
        assert len(names) <= _HOSTS_MAX
        self._holders: dict[str, subprocess.Popen[str]] = {}
        self._router: subprocess.Popen[str] | None = None
        self._cut: set[tuple[str, str]] = set()
        try:
            subnet = _free_subnet()
            self.addresses = {name: f"{subnet}{number}" for number, name in enumerate((HERE, *names), start=1)}
            for name in names:
                self._holders[name] = _holder()
            self._start_router(delay_ms, jitter_ms)
            for name, address in self.addresses.items():
                for command in (
                    ["ip", "addr", "add", f"{address}/24", "dev", self._device(name)],
                    ["ip", "link", "set", self._device(name), "mtu", str(_MTU), "up"],
                    *([] if name == HERE else [["ip", "link", "set", "lo", "up"]]),
                ):
                    subprocess.run(
                        [*self._in(name), *command], check=True, capture_output=True, text=True, timeout=WAIT_S
                    )
        except BaseException:
            self.close()
            raise

    def _device(self, name: str) -> str:
        return f"khr{os.getpid()}" if name == HERE else "khr"

    def _start_router(self, delay_ms: float, jitter_ms: float) -> None:
        hosts = {
            name: {
                "address": address, "device": self._device(name),
                "pid": self._holders[name].pid if name in self._holders else os.getpid(),
            }
            for name, address in self.addresses.items()
        }  # fmt: skip
        self._router = subprocess.Popen(
            [sys.executable, "-m", "tests.workloads.network"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._tell({"hosts": hosts, "delay_ms": delay_ms, "jitter_ms": jitter_ms})
        assert self._router.stdout is not None
        if self._router.stdout.readline() != "ready\n":
            assert self._router.stderr is not None
            raise NamespaceError(self._router.stderr.read())

    def _tell(self, document: dict[str, Any]) -> None:
        assert self._router is not None
        assert self._router.stdin is not None
        self._router.stdin.write(json.dumps(document) + "\n")
        self._router.stdin.flush()

    def _in(self, name: str) -> list[str]:
        return [] if name == HERE else ["nsenter", f"--net=/proc/{self._holders[name].pid}/ns/net"]

    def prefix(self, name: str, ahead_ns: int = 0) -> list[str]:
        """Put it before a command: it runs on that host, with a clock that is ahead."""
        return [*self._in(name), *(skewed(ahead_ns) if ahead_ns else [])]

    def cut(self, one: str, other: str) -> None:
        """No packet passes between them, until `join`."""
        self._cut.add((one, other))
        self._tell({"cut": sorted(self._cut)})

    def join(self, one: str, other: str) -> None:
        self._cut.discard((one, other))
        self._tell({"cut": sorted(self._cut)})

    def close(self) -> None:
        for process in (*([] if self._router is None else [self._router]), *self._holders.values()):
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=WAIT_S)
            for stream in (process.stdout, process.stderr):
                assert stream is not None
                stream.close()


def _holder() -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdout is not None
    if holder.stdout.readline() != "there\n":
        assert holder.stderr is not None
        raise NamespaceError(holder.stderr.read())
    return holder


def _free_subnet() -> str:
    """The beginning of addresses that no device here has, in 198.18.0.0/15: that is for tests (RFC 2544)."""
    taken = subprocess.run(["ip", "-o", "addr"], check=True, capture_output=True, text=True, timeout=WAIT_S).stdout
    for _ in range(20):
        place = random.SystemRandom().randrange(2**9)
        subnet = f"198.{18 + place // 256}.{place % 256}."
        if not re.search(rf"\b{re.escape(subnet)}", taken):
            return subnet
    raise NamespaceError("no subnet of 198.18.0.0/15 is free")


# --- the router ----------------------------------------------------------------------------------------------------


class _Router:
    def __init__(self, config: dict[str, Any]) -> None:
        self._delay_s, self._jitter_s = config["delay_ms"] / 1e3, config["jitter_ms"] / 1e3
        self._devices = {name: _opened(host["pid"], host["device"]) for name, host in config["hosts"].items()}
        self._names = {bytes(map(int, host["address"].split("."))): name for name, host in config["hosts"].items()}
        self._due: list[tuple[float, int, str, bytes]] = []
        self._last_s: dict[tuple[str, str], float] = {}
        self._cut: set[tuple[str, str]] = set()
        self._number = 0
        self._rng = random.Random(7)

    def run(self) -> None:
        selector = selectors.DefaultSelector()
        selector.register(0, selectors.EVENT_READ)
        for name, device in self._devices.items():
            selector.register(device, selectors.EVENT_READ, name)
        commands = b""
        while True:
            wait_s = max(0.0, self._due[0][0] - time.monotonic()) if self._due else 1.0
            for key, _ in selector.select(wait_s):
                if key.data is not None:
                    self._read(key.data, key.fd)
                    continue
                data = os.read(key.fd, 1 << 16)
                if not data:
                    return  # the test has ended
                *lines, commands = (commands + data).split(b"\n")
                for line in lines:
                    pairs = [tuple(pair) for pair in json.loads(line)["cut"]]
                    self._cut = {*pairs, *((other, one) for one, other in pairs)}
            self._deliver()

    def _read(self, source: str, device: int) -> None:
        for _ in range(64):
            try:
                packet = os.read(device, 1 << 16)
            except BlockingIOError:
                return
            target = self._names.get(packet[16:20]) if packet[0] >> 4 == 4 else None
            if target is None or (source, target) in self._cut or len(self._due) >= _QUEUED_MAX:
                continue
            due_s = time.monotonic() + self._delay_s + self._rng.uniform(0, self._jitter_s)
            due_s = max(due_s, self._last_s.get((source, target), 0.0))
            self._last_s[source, target] = due_s
            self._number += 1
            heapq.heappush(self._due, (due_s, self._number, target, packet))

    def _deliver(self) -> None:
        now_s = time.monotonic()
        while self._due and self._due[0][0] <= now_s:
            _, _, target, packet = heapq.heappop(self._due)
            try:
                os.write(self._devices[target], packet)
            except (BlockingIOError, OSError):
                continue  # lost, as on any network


def _opened(pid: int, name: str) -> int:
    """The router's end of a new device in the network namespace of that process."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        if libc.setns(there, 0x40000000):
            raise OSError(ctypes.get_errno(), "setns")
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH", name.encode(), _TUN_WITHOUT_HEADER))
        if libc.setns(own, 0x40000000):
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(own)
        os.close(there)
    return device


def _first_line() -> bytes:
    """Byte by byte: what comes after it belongs to the loop."""
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(0, 1) or b"\n"
    return line


def _route() -> None:
    router = _Router(json.loads(_first_line()))
    print("ready", flush=True)
    router.run()


if __name__ == "__main__":
    _route()
