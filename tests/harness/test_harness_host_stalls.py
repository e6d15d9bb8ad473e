"""A thread that only sleeps sees when the host stood still, and writes nothing while it did not."""

from __future__ import annotations

from pathlib import Path

from harness.run.recording.host_load import HostTicks, is_own_address
from harness.run.recording.host_stalls import INTERVAL_S, StallWatch
from runlog.files.clock import RunClock
from runlog.records.lines import STATS, RecordWriter, read_lines
from runlog.records.stats import StallSample


class Clock(RunClock):
    """Time passes when a test says so."""

    now = 0

    def now_us(self) -> int:
        return Clock.now


def looked(tmp_path: Path, *looks: tuple[int, int, int, int]) -> list[StallSample]:
    """`looks`: milliseconds since the last one; ticks that were busy, stolen, and in all."""
    path = tmp_path / "stats.jsonl"
    writer = RecordWriter(path, STATS)
    clock, Clock.now = Clock(t0_monotonic_ns=0), 0
    ticks = HostTicks(busy=0, stolen=0, total=0)
    watch = StallWatch(clock, writer, ticks=lambda: ticks)
    watch.look()
    for ms, busy, stolen, total in looks:
        Clock.now += ms * 1000
        ticks = HostTicks(busy=ticks.busy + busy, stolen=ticks.stolen + stolen, total=ticks.total + total)
        watch.look()
    writer.close()
    found = read_lines(path, STATS).records
    assert all(isinstance(one, StallSample) for one in found)
    return [one for one in found if isinstance(one, StallSample)]


def test_an_even_beat_and_a_busy_host_leave_no_line(tmp_path: Path) -> None:
    assert INTERVAL_S == 0.05
    assert looked(tmp_path, (50, 10, 0, 10), (60, 10, 0, 10), (55, 2, 1, 10)) == []


def test_a_late_beat_is_written_with_what_the_cores_did_meanwhile(tmp_path: Path) -> None:
    (one,) = looked(tmp_path, (50, 1, 0, 10), (350, 7, 0, 70), (50, 1, 0, 10))
    assert (one.t_us, one.took_us, one.late_us) == (400_000, 350_000, 300_000)
    assert (one.stolen_share, one.busy_share) == (0.0, 0.1)


def test_stolen_time_is_written_though_the_beat_was_even(tmp_path: Path) -> None:
    (one,) = looked(tmp_path, (50, 8, 4, 10))
    assert (one.late_us, one.stolen_share, one.busy_share) == (0, 0.4, 0.4)


def test_a_look_right_after_another_sees_too_few_ticks_to_tell_anything(tmp_path: Path) -> None:
    assert looked(tmp_path, (50, 1, 0, 10), (16, 3, 1, 3), (40, 4, 0, 8)) == []


def test_brokers_on_an_address_of_this_host_are_told_from_others() -> None:
    assert is_own_address("127.0.0.1")
    assert is_own_address("localhost")
    assert not is_own_address("192.0.2.1")
