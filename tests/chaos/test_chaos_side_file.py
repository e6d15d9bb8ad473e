"""A file of ours that cannot be written holds nobody, and says so once."""

from __future__ import annotations

import array
import fcntl
import os
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.toxiproxy.side_file import SideFile, SideText
from tests.patience import wait_until

LONG_S = 60.0
PIPE_BYTES = 65_536  # pipe(7)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_lines_are_written_in_their_order(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    file = SideFile(descriptor)
    for number in range(1000):
        file.put(b"%d\n" % number)
    file.close()
    os.close(descriptor)
    assert (tmp_path / "file").read_bytes().split() == [b"%d" % number for number in range(1000)]


def test_a_full_disk_is_told_once_and_later_lines_are_dropped() -> None:
    told: list[str] = []
    descriptor = os.open("/dev/full", os.O_WRONLY)
    file = SideFile(descriptor, on_problem=told.append)
    for _ in range(3):
        file.put(b"line\n")
        assert file.wait_written(LONG_S)
        assert "No space left" in file.problem
    file.close()
    os.close(descriptor)
    assert told == ["[Errno 28] No space left on device"]


def test_a_disk_that_hangs_holds_nobody_and_bounds_what_waits(pipe: tuple[int, int]) -> None:
    """A pipe that nobody reads takes 64 KiB, then it hangs."""
    told = threading.Event()
    file = SideFile(pipe[1], on_problem=lambda _: told.set(), pending_bytes_max=200_000)
    file.put(b"x" * 99_999 + b"\n")
    wait_until(lambda: waiting_bytes(pipe[0]) == PIPE_BYTES, "the thread hangs in its write")
    file.put(b"x" * 99_999 + b"\n")
    file.put(b"x" * 99_999 + b"\n")
    assert told.is_set(), "by the call that found it"
    assert "wait for a disk that is too slow or hangs" in file.problem
    assert not file.wait_written(0.0)
    os.read(pipe[0], PIPE_BYTES)  # the disk is back
    assert file.wait_written(LONG_S)
    file.close()


def waiting_bytes(reading: int) -> int:
    found = array.array("i", [0])
    fcntl.ioctl(reading, termios.FIONREAD, found)
    return found[0]


def test_after_a_line_that_was_cut_off_the_next_one_begins_anew(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.set_blocking(writing, False)
    file = SideFile(writing)
    file.put(b"x" * 100_000 + b"\n")  # a pipe takes 64 KiB of it, and the rest is an error
    assert file.wait_written(LONG_S)
    assert file.problem
    cut = os.read(reading, 200_000)
    assert 0 < len(cut) < 100_001
    file.resume()
    file.put(b"next\n")
    assert file.wait_written(LONG_S)
    file.close()
    assert (os.read(reading, 100), file.problem) == (b"\nnext\n", "")


def test_text_is_handed_over_whatever_it_is(pipe: tuple[int, int]) -> None:
    file = SideFile(pipe[1])
    print("event=x", "\udc80", file=SideText(file), flush=True)
    file.close()
    assert os.read(pipe[0], 100) == b"event=x \\udc80\n"
