"""One line that the analysis could trip over is left out and told; all others are read; nothing raises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runlog import event_lines
from runlog.event_lines import REQUIRED, read_event_lines

GOOD = {"t_us": 5, "kind": "truncated", "partition": 0, "from_offset": 9, "to_offset": 4, "broker": 1}


def written(tmp_path: Path, *lines: object, name: str = "cluster", end: bytes = b"") -> Path:
    path = tmp_path / f"{name}.jsonl"
    text = b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
    path.write_bytes(text + end)
    return path


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ({key: value for key, value in GOOD.items() if key != "from_offset"}, "has no from_offset"),
        ({key: value for key, value in GOOD.items() if key != "kind"}, "has no kind"),
        ({key: value for key, value in GOOD.items() if key != "t_us"}, "has no t_us"),
        ({**GOOD, "t_us": "soon"}, "t_us='soon'"),
        ({**GOOD, "to_offset": None}, "has no to_offset"),
        ({**GOOD, "to_offset": 2**70}, "expected an integer of 64 bits"),
        ({**GOOD, "partition": True}, "partition='True'"),
        ({**GOOD, "kind": ["truncated"]}, "expected a text"),
        ({"t_us": 1, "kind": "isr_changed", "partition": 0, "isr": "1,2"}, "expected a list of integers"),
        (b"nonsense", "is no JSON"),
        (b"[1]", "is no JSON object"),
        (b"[" * 100_000, "is no JSON"),
        (b'{"t_us": NaN, "kind": "x"}', "is no JSON"),
        (b'{"t_us": ' + b"9" * 5000 + b', "kind": "x"}', "is no JSON"),
        (b'{"t_us": 1, "kind": "\xff"}', "is no JSON"),
    ],
)
def test_a_line_that_cannot_be_used_is_left_out_and_told(tmp_path: Path, line: object, why: str) -> None:
    read = read_event_lines(written(tmp_path, GOOD, line, GOOD))
    assert read.events == (GOOD, GOOD)
    (problem,) = read.problems
    assert problem.startswith("cluster.jsonl: line 2 ")
    assert why in problem


def test_a_torn_last_line_is_normal_and_an_empty_one_nothing(tmp_path: Path) -> None:
    read = read_event_lines(written(tmp_path, GOOD, b"", GOOD, end=b'{"t_us": 1'))
    assert (len(read.events), read.problems, read.is_torn) == (2, (), True)


def test_a_time_of_the_host_is_put_on_the_runs_clock(tmp_path: Path) -> None:
    path = written(tmp_path, {"mono_ns": 3_500_000, "outcome": "dropped"}, name="wire")
    assert read_event_lines(path, t0_monotonic_ns=1_000_000).events[0]["t_us"] == 2500


def test_what_is_not_known_is_the_same_as_not_there(tmp_path: Path) -> None:
    path = written(tmp_path, {"t_us": 1, "kind": "leader", "partition": 0, "leader_epoch": None})
    assert read_event_lines(path).events == ({"t_us": 1, "kind": "leader", "partition": 0},)


def test_many_bad_lines_are_told_as_a_number(tmp_path: Path) -> None:
    assert read_event_lines(written(tmp_path, *[b"x"] * 12)).problems[-1] == "cluster.jsonl: 7 more lines were left out"


def test_lines_and_their_length_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_lines, "LINE_BYTES_MAX", 200)
    long = {**GOOD, "reason": "x" * 500}
    read = read_event_lines(written(tmp_path, GOOD, long, GOOD))
    assert len(read.events) == 1
    assert "over a limit" in read.problems[0]
    monkeypatch.setattr(event_lines, "EVENT_LINES_MAX", 2)
    assert len(read_event_lines(written(tmp_path, *[GOOD] * 5)).events) == 2


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "wire.jsonl").symlink_to(written(tmp_path, GOOD))
    read = read_event_lines(tmp_path / "wire.jsonl")
    assert read.events == ()
    assert "not followed" in read.problems[0]


def test_a_file_that_is_not_there_has_no_events(tmp_path: Path) -> None:
    assert read_event_lines(tmp_path / "cluster.jsonl").events == ()


values = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.lists(st.integers(), max_size=2)
)
names = st.sampled_from(
    sorted({"t_us", "kind", "isr", "x", *GOOD, *(n for f in REQUIRED["history"].values() for n in f)})
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.dictionaries(names, values, max_size=8) | st.binary(max_size=20), max_size=6),
    name=st.sampled_from(sorted(REQUIRED)),
)
def test_whatever_the_lines_are_what_comes_through_has_its_fields(
    tmp_path: Path, lines: list[object], name: str
) -> None:
    read = read_event_lines(written(tmp_path, *lines, name=name))
    for event in read.events:
        assert all(field in event for field in REQUIRED[name][""])
        assert type(event.get("t_us", 0)) is int
        assert type(event.get("partition", 0)) is int
    assert len(read.events) + len(read.problems) <= sum(
        line.count(b"\n") + 1 if isinstance(line, bytes) else 1 for line in lines
    )
