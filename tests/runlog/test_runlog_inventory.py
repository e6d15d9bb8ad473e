"""A part that is lost, cut or changed is known before anything reads it; what is sound is read."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlog.records.codec import to_json
from runlog.streams.inventory import CellFiles, check_files, take_inventory
from runlog.streams.parquet import write_part
from runlog.streams.schema import RECV, SEND

ROWS = 5_000


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """One cell with two parts of `send`, one of `recv` and two event files."""
    rng = random.Random(1)
    for part in ("000000", "000001"):
        columns = {column.name: [rng.randrange(100) for _ in range(ROWS)] for column in SEND.columns}
        write_part(tmp_path, SEND, "c", columns, part=part)
    write_part(tmp_path, RECV, "c", {column.name: range(10) for column in RECV.columns})
    (tmp_path / "cells" / "c").mkdir(parents=True)
    for name in ("cluster", "faults"):
        (tmp_path / "cells" / "c" / f"{name}.jsonl").write_text('{"t_us": 1}\n')
    return tmp_path


@pytest.fixture
def listed(run_dir: Path) -> Any:
    return json.loads(json.dumps(to_json(take_inventory(run_dir, "c"))))


def send_part(run_dir: Path) -> Path:
    return run_dir / "send" / "cell=c" / "part-000001.parquet"


def zero_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    middle = len(data) // 3
    data[middle : middle + 200] = bytes(200)
    path.write_bytes(data)


def garble_footer(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-60:-20] = b"\xff" * 40
    path.write_bytes(data)


def without_a_column(path: Path) -> None:
    table = pq.ParquetFile(path).read()
    pq.write_table(table.drop_columns([table.column_names[1]]), path)


def of_another_type(path: Path) -> None:
    table = pq.ParquetFile(path).read()
    name = table.column_names[1]
    pq.write_table(table.set_column(1, name, pa.array([str(value) for value in range(table.num_rows)])), path)


def fewer_rows(path: Path) -> None:
    pq.write_table(pq.ParquetFile(path).read().slice(0, 7), path)


def as_a_link(path: Path) -> None:
    other = path.with_suffix(".elsewhere")
    shutil.move(path, other)
    path.symlink_to(other)


def as_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "gone": Path.unlink,
    "empty": lambda path: path.write_bytes(b"") and None,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-100]) and None,
    "no Parquet": lambda path: path.write_bytes(b"PAR1" + bytes(5000) + b"PAR1") and None,
    "zeroed middle": zero_middle,
    "garbled footer": garble_footer,
    "column absent": without_a_column,
    "column of another type": of_another_type,
    "fewer rows": fewer_rows,
    "a link": as_a_link,
    "a directory": as_a_directory,
}
NOT_SEEN_WITHOUT_A_LIST = ("gone", "fewer rows")


def test_what_is_as_written_is_sound(run_dir: Path, listed: Any) -> None:
    for files in (check_files(run_dir, "c", listed), check_files(run_dir, "c", None)):
        assert files.problems == ()
        assert files.rows["send"] == 2 * ROWS
        assert len(files.parts["send"]) == 2
        assert files.parts["log"] == ()


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_part_is_named_and_left_out(run_dir: Path, listed: Any, name: str) -> None:
    DAMAGES[name](send_part(run_dir))
    files = check_files(run_dir, "c", listed)
    assert [problem.partition(":")[0] for problem in files.problems] == ["send/part-000001.parquet"]
    assert files.rows["send"] == ROWS, "the other part is as it was"
    without_list = check_files(run_dir, "c", None)
    assert bool(without_list.problems) == (name not in NOT_SEEN_WITHOUT_A_LIST)


def test_a_part_of_nobody_is_left_out(run_dir: Path, listed: Any) -> None:
    shutil.copy(send_part(run_dir), send_part(run_dir).with_name("part-000002.parquet"))
    files = check_files(run_dir, "c", listed)
    assert files.problems == ("send/part-000002.parquet: is no file of this run",)
    assert files.rows["send"] == 2 * ROWS


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_text('{"t_us": 2}\n')])
def test_an_event_file_that_is_gone_or_changed_is_named(
    run_dir: Path, listed: Any, change: Callable[[Path], object]
) -> None:
    change(run_dir / "cells" / "c" / "cluster.jsonl")
    (problem,) = check_files(run_dir, "c", listed).problems
    assert problem.startswith("cluster.jsonl: ")


def test_segments_that_are_still_live_are_missing_rows(run_dir: Path, listed: Any) -> None:
    (run_dir / "cells" / "c" / "live").mkdir()
    (run_dir / "cells" / "c" / "live" / "send.seg").write_bytes(b"x")
    (problem,) = check_files(run_dir, "c", listed).problems
    assert "what they hold is missing" in problem


def test_a_part_of_an_older_version_lacks_only_what_has_a_default(run_dir: Path) -> None:
    path = send_part(run_dir)
    pq.write_table(pq.ParquetFile(path).read().drop_columns(["appended_us"]), path)
    assert check_files(run_dir, "c", None).problems == ()


NAMES = st.sampled_from(["streams", "events", "send", "file", "bytes", "crc32", "rows"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(listed=json_values)
def test_any_list_is_taken_and_one_that_is_none_is_a_problem(
    listed: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    files = check_files(tmp_path_factory.getbasetemp() / "nothing", "c", listed)
    assert isinstance(files, CellFiles)
    if listed is not None and not (isinstance(listed, dict) and isinstance(listed.get("streams"), dict)):
        assert files.problems


def test_names_in_a_list_never_leave_the_cell(run_dir: Path, listed: Any) -> None:
    listed["streams"]["send"][0]["file"] = "../../recv/cell=c/part-000000.parquet"
    files = check_files(run_dir, "c", listed)
    assert any("cannot be read" in problem for problem in files.problems)
    assert files.rows["send"] == ROWS
