"""A disturbed sweep cell is recognised by its steadiness and put aside whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.run.attempts import DisturbedCells, RepeatAllowance, backlog, put_aside, unsteady, why_again
from runlog.files.json_lines import JsonlWriter
from runlog.files.paths import cell_directory, events_path
from runlog.streams.parquet import read_stream, write_part
from runlog.streams.schema import RECV, SEND

WINDOW_US = (1_000_000, 4_000_000)


def write_times(run_dir: Path, stream_name: str, column: str, times_us: np.ndarray) -> None:
    stream = {"send": SEND, "recv": RECV}[stream_name]
    columns = {item.name: np.zeros(len(times_us), dtype=np.int64) for item in stream.columns}
    columns[column] = times_us
    write_part(run_dir, stream_name, "c", columns)


@pytest.mark.parametrize(("acks", "stream", "column"), [("all", "send", "acked_us"), ("0", "recv", "polled_us")])
def test_a_window_with_a_hole_in_its_middle_is_unsteady_and_an_even_one_is_not(
    tmp_path: Path, acks: str, stream: str, column: str
) -> None:
    even = np.arange(0, 5_000_000, 500, dtype=np.int64)
    write_times(tmp_path, stream, column, even)
    assert unsteady(tmp_path, "c", acks=acks, started_us=250_000, window_us=WINDOW_US) is None
    holed = even[(even < 2_100_000) | (even > 2_600_000)]
    write_times(tmp_path, stream, column, holed)
    assert "50%" in (unsteady(tmp_path, "c", acks=acks, started_us=250_000, window_us=WINDOW_US) or "")


def test_a_load_that_changes_by_its_schedule_is_held_against_what_was_due(tmp_path: Path) -> None:
    """Acknowledgements of a ramp are three times as dense at its end; those of a stall in its last third are not."""
    intended_us = (5_000_000 * np.sqrt(np.linspace(0.0, 1.0, 10_000))).astype(np.int64)
    columns = {item.name: np.zeros(len(intended_us), dtype=np.int64) for item in SEND.columns}

    def judged(cell_id: str, acked_us: np.ndarray, kind: str) -> str | None:
        write_part(tmp_path, "send", cell_id, {**columns, "intended_us": intended_us, "acked_us": acked_us})
        return unsteady(tmp_path, cell_id, acks="all", started_us=0, window_us=WINDOW_US, schedule_kind=kind)

    assert judged("followed", intended_us + 4_000, "ramp") is None
    assert "unsteady" in (judged("constant", intended_us + 4_000, "constant") or "")
    late_us = np.where(intended_us > 3_000_000, intended_us + 600_000, intended_us)
    assert "of what was due" in (judged("stalled", late_us, "ramp") or "")


def test_a_window_that_is_too_short_or_unknown_is_not_judged(tmp_path: Path) -> None:
    write_times(tmp_path, "send", "acked_us", np.asarray([1_100_000], dtype=np.int64))
    assert unsteady(tmp_path, "c", acks="all", started_us=0, window_us=(1_000_000, 1_500_000)) is None
    assert unsteady(tmp_path, "c", acks="all", started_us=0, window_us=None) is None


def test_a_window_that_begins_with_the_backlog_of_its_warm_up_is_run_again_while_there_is_time(tmp_path: Path) -> None:
    """3,000 records/s asked. Half a second before the window nothing is acknowledged, and the rest is caught up in it:
    batch.size=8192 showed 3,229 records/s like that, and stood on the front as the fastest."""
    intended_us = np.arange(0, 5_000_000, 333, dtype=np.int64)
    columns = {item.name: np.zeros(len(intended_us), dtype=np.int64) for item in SEND.columns}

    def written(cell_id: str, acked_us: np.ndarray) -> None:
        write_part(tmp_path, "send", cell_id, {**columns, "intended_us": intended_us, "acked_us": acked_us})

    late_us = np.clip(500_000 - np.abs(intended_us - 1_000_000), 0, None)
    written("c", intended_us + late_us)
    written("calm", intended_us + 4_000)
    assert backlog(tmp_path, "calm", WINDOW_US) is None
    assert backlog(tmp_path, "c", None) is None
    why = backlog(tmp_path, "c", WINDOW_US)
    assert why is not None
    assert why.startswith("unsteady: the window began with a backlog of the warm-up; 8.3% more records")

    def again(cell_id: str, acks: str = "all", kind: str = "constant") -> str | None:
        return why_again(
            tmp_path, cell_id, acks=acks, started_us=0, window_us=WINDOW_US, schedule_kind=kind,
        )  # fmt: skip

    assert again("c") == why
    assert again("c", kind="closed") is None
    assert again("calm") is None


def test_put_aside_keeps_the_records_of_the_attempt_and_empties_the_run_log(tmp_path: Path) -> None:
    write_times(tmp_path, "send", "acked_us", np.asarray([1, 2, 3], dtype=np.int64))
    directory = cell_directory(tmp_path, "c")
    directory.mkdir(parents=True)
    (directory / "cell.json").write_text("{}")
    (directory / "stats.jsonl").write_text("")
    (directory / "members").mkdir()
    (directory / "members" / "app-0-0.jsonl").write_text("")
    put_aside(tmp_path, "c", 1)
    kept = ["cell.json", "members", "stats.jsonl"]
    assert sorted(path.name for path in (directory / "attempt-1").iterdir()) == kept
    assert [path.name for path in directory.iterdir()] == ["attempt-1"], "the next attempt's members begin anew"
    assert len(read_stream(tmp_path, "send", "c")) == 0


def test_a_cell_that_others_disturbed_is_worth_another_run(tmp_path: Path) -> None:
    write_times(tmp_path, "send", "acked_us", np.arange(0, 5_000_000, 500, dtype=np.int64))
    cell_directory(tmp_path, "c").mkdir(parents=True)
    samples = JsonlWriter(events_path(tmp_path, "c", "stats"))
    for t_us, foreign in ((500_000, 0.9), (2_000_000, 0.1), (3_000_000, 0.3)):
        samples.append({"t_us": t_us, "source": "host", "name": "resources", "values": {"foreign_share": foreign}})
    samples.close()

    def again(window_us: tuple[int, int] | None) -> str | None:
        return why_again(tmp_path, "c", acks="all", started_us=0, window_us=window_us)

    assert again((1_000_000, 2_500_000)) is None  # 10 % within the window, whatever was before it
    assert "other programs took 20%" in (again(WINDOW_US) or "")


def test_one_repeat_of_the_planned_length_is_granted_however_short_the_sweep() -> None:
    assert RepeatAllowance([100], 0.1).has_room_for(100)
    assert not RepeatAllowance([], 0.1).has_room_for(1)
    assert not RepeatAllowance([100] * 30, 0.0).has_room_for(1), "the suite wants none"


def test_repeats_are_bounded_for_the_whole_run_by_what_they_took() -> None:
    allowance = RepeatAllowance([100] * 30, 0.1)
    granted = 0
    while allowance.has_room_for(100):
        granted += 1
        allowance.use(100)
    assert granted == 3
    slow = RepeatAllowance([100] * 30, 0.1)
    assert not slow.has_room_for(2_000), "on a busy host the cell itself took twenty times as long"
    slow.use(250)
    assert not slow.has_room_for(100)
    assert RepeatAllowance([3_000] * 30, 0.1).words() == " (0 of at most 9 s for repeats are used)"
    assert RepeatAllowance([3_000] * 30, 0.0).words() == "", "nothing of a bound that is nothing"


def test_only_the_first_disturbed_cell_has_a_line_and_the_others_a_count_at_the_end(tmp_path: Path) -> None:
    """28 lines of the same kind buried the progress of a demo on a busy host."""
    found = DisturbedCells()
    for cell_id, share in (("a", 0.41), ("b", 0.02), ("c", 0.69)):
        cell_directory(tmp_path, cell_id).mkdir(parents=True)
        samples = JsonlWriter(events_path(tmp_path, cell_id, "stats"))
        samples.append(
            {"t_us": 2_000_000, "source": "host", "name": "resources", "values": {"foreign_share": share}}
        )  # fmt: skip
        samples.close()
    told = [found.ended(tmp_path, cell_id, WINDOW_US) for cell_id in "abc"]
    assert told == ["a: disturbed host: other programs took 41% of all cores in the measured window; "
                    "it stays and is marked", "", ""]  # fmt: skip
    assert found.words() == "2 of 3 cells were disturbed by the host: others took 41% to 69% of all cores"
    assert found.ended(tmp_path, "d", None) == "", "nothing was measured"
