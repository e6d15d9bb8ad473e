"""The broker's wall clock is wrong by what the control file says, at once and again right; the monotonic one never."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.node.process import clock


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = clock.clocks()
    yield
    clock.use_clocks(*before)


def test_the_wall_clock_follows_the_control_file(tmp_path: Path) -> None:
    control = tmp_path / "clock"
    control.write_bytes(struct.pack("=q", 0) + bytes(100))
    clock.set_wrong_by(control)
    for offset_s in (0, 3600, -90, 0):
        with control.open("r+b") as file:
            file.write(struct.pack("=q", offset_s * 1_000_000_000))
        assert abs(clock.wall_ms() / 1000 - time.time() - offset_s) < 10
        assert abs(clock.monotonic_ms() / 1000 - time.monotonic()) < 10


def test_a_control_file_that_is_not_there_or_too_short_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        clock.set_wrong_by(tmp_path / "clock")
    (tmp_path / "clock").write_bytes(b"1234")
    with pytest.raises(ValueError, match="length"):
        clock.set_wrong_by(tmp_path / "clock")
