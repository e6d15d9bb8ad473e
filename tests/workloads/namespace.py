"""A network namespace of its own for a load host, with a clock that is off.

It needs root. It lives as long as its holder, a process that waits for the end of its stdin. So it goes with the test,
also with one that is killed, and no name and no address of it is left in the way of the next.
Shown by tests/workloads/test_workloads_namespace.py.
"""

from __future__ import annotations

import functools
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

WAIT_S: Final = 120.0
_TRIES: Final = 20  # for a subnet that nobody has
_NETWORK: Final = (198, 18)  # 198.18.0.0/15 is for tests of networks (RFC 2544)

# In a new time namespace: its monotonic clock is ahead of ours by argv[1] ns. What follows is run in it.
_SKEWED: Final = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x80):
    raise OSError(ctypes.get_errno(), "unshare")
seconds, nanoseconds = divmod(int(sys.argv[1]), 10**9)
with open("/proc/self/timens_offsets", "w") as file:
    file.write(f"monotonic {seconds} {nanoseconds}\\n")
child = os.fork()
if not child:
    libc.prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: nobody else knows this process
    os.execvp(sys.argv[2], sys.argv[2:])
signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
# Says that it is in its namespace, and holds it until whoever started it ends.
HOLDER: Final = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x40000000):
    raise OSError(ctypes.get_errno(), "unshare")
print("there", flush=True)
sys.stdin.read()
"""


@functools.cache
def why_not() -> str:
    """Why no namespaces can be made here; empty if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    tried = subprocess.run([*skewed(5_000_000), "true"], capture_output=True, text=True, timeout=WAIT_S)
    if tried.returncode:
        return f"no time namespaces here: {tried.stderr.strip()[-200:]}"
    try:
        Namespace().close()
    except FileNotFoundError as error:
        return f"network namespaces need the commands ip and nsenter: {error}"
    except (NamespaceError, subprocess.CalledProcessError) as error:
        why = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
        return f"no network namespaces here: {str(why).strip()[-200:]}"
    return ""


def skewed(ahead_ns: int) -> list[str]:
    return [sys.executable, "-c", _SKEWED, str(ahead_ns)]


class NamespaceError(RuntimeError):
    """It cannot be made here."""


class Namespace:
    """A host of its own, `there`, with one link to the namespace where the test runs, `here`."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert self._holder.stdout is not None
            if self._holder.stdout.readline() != "there\n":
                assert self._holder.stderr is not None
                raise NamespaceError(self._holder.stderr.read())
            self._link()
        except BaseException:
            self.close()
            raise

    def _link(self) -> None:
        pid = self._holder.pid
        self.device, far = f"khn{pid}", f"khf{pid}"
        self.here, self.there = _free_subnet()
        for command in (
            ["ip", "link", "add", self.device, "type", "veth", "peer", "name", far, "netns", str(pid)],
            ["ip", "addr", "add", f"{self.here}/30", "dev", self.device],
            ["ip", "link", "set", self.device, "up"],
            self._in(["ip", "addr", "add", f"{self.there}/30", "dev", far]),
            self._in(["ip", "link", "set", far, "up"]),
            self._in(["ip", "link", "set", "lo", "up"]),
            self._in(["ip", "route", "add", "default", "via", self.here]),
        ):
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=WAIT_S)

    def _in(self, command: Sequence[str]) -> list[str]:
        return ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net", *command]

    def prefix(self, ahead_ns: int) -> list[str]:
        """Put it before a command: it runs there, with a clock that is ahead."""
        return self._in(skewed(ahead_ns))

    def close(self) -> None:
        """The link goes with the namespace, when nobody is in it any more."""
        assert self._holder.stdin is not None
        self._holder.stdin.close()
        self._holder.wait(timeout=WAIT_S)
        for stream in (self._holder.stdout, self._holder.stderr):
            assert stream is not None
            stream.close()


def _free_subnet() -> tuple[str, str]:
    """Two addresses that no device here has."""
    taken = subprocess.run(["ip", "-o", "addr"], check=True, capture_output=True, text=True, timeout=WAIT_S).stdout
    for _ in range(_TRIES):
        place = random.SystemRandom().randrange(2**15) * 4
        first, second = _NETWORK
        start = f"{first}.{second + place // 2**16}.{place // 256 % 256}"
        here, there = f"{start}.{place % 256 + 1}", f"{start}.{place % 256 + 2}"
        if not re.search(rf"\b{re.escape(here)}/", taken):
            return here, there
    raise NamespaceError("no subnet of 198.18.0.0/15 is free")


def wait_gone(device: str) -> None:
    """Until there is no such device any more: the kernel takes a namespace down after its last process."""
    deadline_s = time.monotonic() + WAIT_S
    while os.path.exists(f"/sys/class/net/{device}"):
        assert time.monotonic() < deadline_s, f"{device} is still there"
        time.sleep(0.05)
