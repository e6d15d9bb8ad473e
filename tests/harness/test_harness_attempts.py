"""A sweep cell is run again if its host was disturbed, by the host's own evidence alone, and put aside whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from harness.run.attempts import DisturbedCells, RepeatAllowance, disturbed, put_aside
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


def test_what_the_brokers_did_never_decides_that_a_cell_is_run_again(tmp_path: Path) -> None:
    """A stall of the brokers took its cell out of the run log in 35 to 84 of 100 attempts. Half a window without an
    acknowledgement, a backlog of the warm-up, no acknowledgement at all: only samples of the host are asked."""
    cell_directory(tmp_path, "c").mkdir(parents=True)
    even = np.arange(0, 5_000_000, 500, dtype=np.int64)
    for times_us in (even, even[(even < 2_000_000) | (even > 3_500_000)], even + 900_000, even[:0]):
        write_times(tmp_path, "send", "acked_us", times_us)
        assert disturbed(tmp_path, "c", WINDOW_US) is None
        write_samples(tmp_path, (2_000_000, 0.05), (3_000_000, 0.05))
        assert disturbed(tmp_path, "c", WINDOW_US) is None


def write_samples(run_dir: Path, *foreign: tuple[int, float]) -> None:
    samples = JsonlWriter(events_path(run_dir, "c", "stats"))
    for t_us, share in foreign:
        samples.append({"t_us": t_us, "source": "host", "name": "resources", "values": {"foreign_share": share}})
    samples.close()


def test_put_aside_keeps_the_records_and_the_rows_of_the_attempt_and_empties_the_run_log(tmp_path: Path) -> None:
    write_times(tmp_path, "send", "acked_us", np.asarray([1, 2, 3], dtype=np.int64))
    directory = cell_directory(tmp_path, "c")
    directory.mkdir(parents=True)
    (directory / "cell.json").write_text("{}")
    (directory / "stats.jsonl").write_text("")
    (directory / "members").mkdir()
    (directory / "members" / "app-0-0.jsonl").write_text("")
    put_aside(tmp_path, "c", 1)
    kept = ["cell.json", "members", "rows", "stats.jsonl"]
    assert sorted(path.name for path in (directory / "attempt-1").iterdir()) == kept
    assert [path.name for path in directory.iterdir()] == ["attempt-1"], "the next attempt's members begin anew"
    assert len(read_stream(tmp_path, "send", "c")) == 0
    (part,) = (directory / "attempt-1" / "rows" / "send").iterdir()
    assert pq.ParquetFile(part).read()["acked_us"].to_pylist() == [1, 2, 3]


def test_a_cell_that_others_disturbed_is_worth_another_run(tmp_path: Path) -> None:
    cell_directory(tmp_path, "c").mkdir(parents=True)
    write_samples(tmp_path, (500_000, 0.9), (2_000_000, 0.1), (3_000_000, 0.22))
    assert disturbed(tmp_path, "c", (1_000_000, 2_500_000)) is None  # 10 % within the window, whatever was before it
    assert "other programs took 16%" in (disturbed(tmp_path, "c", WINDOW_US) or "")
    assert disturbed(tmp_path, "c", None) is None


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
