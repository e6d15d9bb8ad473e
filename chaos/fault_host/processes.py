"""Finds the process that a permit means, and sends signals that reach this process and no other.

A pid is not enough, because it is used again. So a process counts only if its command line and its user are as the
permit says, and if it is not younger than the pid file that names it. From then on pid and start time together identify
it. A signal goes through a pidfd that is opened before the start time is compared. So the kernel cannot give the pid to
another process in between. Shown by tests/chaos/test_chaos_fault_host.py.
"""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

from chaos.fault_host.permits import ProcessPermit
from chaos.process_identity import ProcessIdentity, is_alive, read_identity

PID_COMMAND_S: Final = 10.0
_PID_FILE_BYTES_MAX: Final = 100
_PID_MAX: Final = 1 << 22
_OLDER_S: Final = 2.0  # a pid file may seem this much older than its process, because boot time is known to a second
_LOOK_S: Final = 0.02
_COMMAND_BYTES_MAX: Final = 1 << 20
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_EXEC_S: Final = 5.0  # the longest that an exec may take: half a second was too short on a host at load 35


class NotTheBroker(Exception):
    """The process with the pid of the permit is not the broker. The message says why."""


class CannotTell(Exception):
    """It is unknown whether the broker runs. The message says why."""


def find_process(permit: ProcessPermit) -> ProcessIdentity | None:
    """The broker's process. None if it does not run. Raises NotTheBroker if another process has its pid, and CannotTell
    if this is unknown."""
    named = _pid_in_file(permit.pid_file) if permit.pid_file is not None else _pid_by_command(permit)
    if named is None:
        return None
    pid, written_s = named
    identity = read_identity(pid)
    if identity is None:
        return None
    if pid in _ourselves():
        raise NotTheBroker(f"pid {pid} is the worker itself, or one of its parents")
    if written_s is not None and (late_s := _started_s(identity) - written_s) > _OLDER_S:
        raise NotTheBroker(
            f"{permit.pid_file} is {late_s:.0f} s older than the process with pid {pid}: it is left over"
        )
    if permit.command_has not in (command := _command_line(pid)):
        raise NotTheBroker(f"pid {pid} is {command[:200]!r}, expected {permit.command_has!r} in its command line")
    if permit.user is not None and (user := _user_of(pid)) != permit.user:
        raise NotTheBroker(f"pid {pid} belongs to user {user}, expected {permit.user}")
    return identity if is_alive(identity) else None


def send_signal(identity: ProcessIdentity, number: signal.Signals) -> bool:
    """Send the signal to this process and no other. False if it has ended. Raises PermissionError if we may not send
    it."""
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return False
    try:
        if not is_alive(identity):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def wait_gone(identity: ProcessIdentity, timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while is_alive(identity):
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(_LOOK_S)
    return True


def _pid_in_file(path: Path) -> tuple[int, float] | None:
    """The pid and the time when the file was written. None if the file does not exist or is empty."""
    try:
        with path.open("rb") as file:
            written_s = os.fstat(file.fileno()).st_mtime
            words = file.read(_PID_FILE_BYTES_MAX).split()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CannotTell(f"{path} cannot be read: {error.strerror}") from error
    return None if not words else (_number(words[0], str(path)), written_s)


def _pid_by_command(permit: ProcessPermit) -> tuple[int, None] | None:
    assert permit.pid_command is not None
    name = permit.pid_command[0]
    try:
        done = subprocess.run(
            permit.pid_command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PID_COMMAND_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotTell(f"pid_command {name} failed: {error}") from error
    words = done.stdout[:_PID_FILE_BYTES_MAX].split()
    if not words or words[0] == b"0":
        return None
    return _number(words[0], f"pid_command {name}"), None


def _number(word: bytes, where: str) -> int:
    if not word.isdigit() or not 2 <= int(word) <= _PID_MAX:
        raise CannotTell(f"{where} holds no pid: {word[:40]!r}")
    return int(word)


def _ourselves() -> frozenset[int]:
    """The pids of this process and its parents."""
    found, pid = set(), os.getpid()
    while pid > 1 and pid not in found:
        found.add(pid)
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
    return frozenset(found)


def _started_s(identity: ProcessIdentity) -> float:
    """When the process started, by the wall clock, to a second."""
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return float(line.split()[1]) + identity.start_ticks / _TICKS_PER_S
    raise CannotTell("the time of the boot is not in /proc/stat")


def _command_line(pid: int) -> str:
    """The command line. It is empty for a zombie and for a thread of the kernel. During an exec it is empty too, for
    less than a millisecond unless the host is busy. So a program's empty command line is read again for a while."""
    deadline = time.monotonic() + _EXEC_S
    while not (found := _read_command_line(pid)) and _is_program(pid) and time.monotonic() < deadline:
        time.sleep(0.005)
    return found


def _is_program(pid: int) -> bool:
    """False for a process that has ended, and for a thread of the kernel: it has no file."""
    try:
        return bool(os.readlink(f"/proc/{pid}/exe"))
    except PermissionError:
        return True  # It belongs to another user.
    except OSError:
        return False


def _read_command_line(pid: int) -> str:
    try:
        with Path(f"/proc/{pid}/cmdline").open("rb") as file:
            return file.read(_COMMAND_BYTES_MAX).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _user_of(pid: int) -> str:
    try:
        uid = Path(f"/proc/{pid}").stat().st_uid
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
    except OSError:
        return "?"
