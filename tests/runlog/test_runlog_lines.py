"""One line that the analysis could trip over is left out and told; all others are read; nothing raises."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runlog.records import lines
from runlog.records.codec import RecordError, to_json
from runlog.records.lines import (
    CLUSTER,
    FAULTS,
    HISTORY,
    MEMBER_JOURNAL,
    STATS,
    WIRE,
    Family,
    RecordWriter,
    own_lines,
    read_lines,
)
from runlog.records.partition import LeaderSeen, Truncated
from runlog.records.stats import ClientSample

GOOD = {"t_us": 5, "kind": "truncated", "partition": 0, "from_offset": 9, "to_offset": 4, "broker": 1}
READ = Truncated(t_us=5, partition=0, from_offset=9, to_offset=4, broker=1)
FAMILIES: tuple[Family[Any], ...] = (CLUSTER, FAULTS, HISTORY, MEMBER_JOURNAL, STATS, WIRE)


def written(tmp_path: Path, *found: object, name: str = "cluster", end: bytes = b"") -> Path:
    path = tmp_path / f"{name}.jsonl"
    text = b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in found)
    path.write_bytes(text + end)
    return path


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ({key: value for key, value in GOOD.items() if key != "from_offset"}, "(truncated) has no from_offset"),
        ({key: value for key, value in GOOD.items() if key != "kind"}, "(no kind) has no kind"),
        ({key: value for key, value in GOOD.items() if key != "t_us"}, "has no t_us"),
        ({**GOOD, "t_us": "soon"}, "t_us='soon'"),
        ({**GOOD, "to_offset": None}, "has no to_offset"),
        ({**GOOD, "to_offset": 2**70}, "expected an integer of 64 bits"),
        ({**GOOD, "partition": True}, "partition='True'"),
        ({**GOOD, "kind": ["truncated"]}, "expected a text"),
        ({**GOOD, "source": "hearsay"}, "source='hearsay', expected one of journal, process"),
        ({"t_us": 1, "kind": "isr_changed", "partition": 0, "isr": "1,2"}, "expected a list of integers"),
        ({"t_us": 1, "kind": "isr_changed", "partition": 0, "isr": [1, "2"]}, "expected a list of integers"),
        (b"nonsense", "is no JSON"),
        (b"[1]", "is no JSON object"),
        (b"[" * 100_000, "is no JSON"),
        (b'{"t_us": NaN, "kind": "x"}', "is no JSON"),
        (b'{"t_us": ' + b"9" * 5000 + b', "kind": "x"}', "is no JSON"),
        (b'{"t_us": 1, "kind": "\xff"}', "is no JSON"),
    ],
)
def test_a_line_that_cannot_be_used_is_left_out_and_told(tmp_path: Path, line: object, why: str) -> None:
    read = read_lines(written(tmp_path, GOOD, line, GOOD), CLUSTER)
    assert read.records == (READ, READ)
    (problem,) = read.problems
    assert problem.startswith("cluster.jsonl: line 2 ")
    assert why in problem


def test_a_torn_last_line_is_normal_and_an_empty_one_nothing(tmp_path: Path) -> None:
    read = read_lines(written(tmp_path, GOOD, b"", GOOD, end=b'{"t_us": 1'), CLUSTER)
    assert (len(read.records), read.problems, read.is_torn) == (2, (), True)


def test_a_time_of_the_host_is_put_on_the_runs_clock(tmp_path: Path) -> None:
    path = written(tmp_path, {"mono_ns": 3_500_000, "outcome": "dropped"}, name="wire")
    assert read_lines(path, WIRE, t0_monotonic_ns=1_000_000).records[0].t_us == 2500


def test_what_is_not_known_is_the_same_as_not_there(tmp_path: Path) -> None:
    path = written(tmp_path, {"t_us": 1, "kind": "leader", "partition": 0, "leader_epoch": None})
    assert read_lines(path, CLUSTER).records == (LeaderSeen(t_us=1, partition=0),)


def test_a_line_of_an_unknown_kind_keeps_all_that_it_says(tmp_path: Path) -> None:
    line = {"t_us": 1, "broker": 2, "kind": "moved", "source": "journal", "offset": "x", "of": {"a": 1}}
    (record,) = read_lines(written(tmp_path, line), CLUSTER).records
    assert to_json(record) == line


def test_a_line_of_somebody_else_that_is_no_record_is_kept_for_its_reader_to_tell(tmp_path: Path) -> None:
    path = tmp_path / "cluster.jsonl"
    with RecordWriter(path, CLUSTER) as writer:
        writer.append(READ)
        writer.copy(b'{"mono_ns": 6000, "kind": "truncated", "partition": 0}', t0_monotonic_ns=0)
        writer.copy(json.dumps(GOOD).encode(), t0_monotonic_ns=0)
    read = read_lines(path, CLUSTER)
    assert read.records == (READ, READ)
    assert read.problems == ("cluster.jsonl: line 2 (truncated) has no from_offset and was left out",)


def test_lines_of_ones_own_come_one_by_one_without_torn_ones_and_those_of_others(tmp_path: Path) -> None:
    path = tmp_path / "wire.jsonl"
    of_t, of_u = ({"mono_ns": 1, "topic": topic, "outcome": "delivered"} for topic in "tu")
    path.write_text(f'{json.dumps(of_t)}\n{{"mono_n{json.dumps(of_t)}\n{json.dumps(of_u)}\n{{"topic":"t","a"')
    assert [line.topic for line in own_lines(path, WIRE, containing=b'"t"')] == ["t"]
    assert list(own_lines(tmp_path / "none.jsonl", WIRE)) == []


def test_a_line_of_ones_own_that_is_no_record_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD, {"t_us": 6, "kind": "truncated", "partition": 0})
    with pytest.raises(RecordError, match=r"cluster\.jsonl: line 2 \(truncated\) has no from_offset"):
        list(own_lines(path, CLUSTER))


def test_a_torn_line_is_not_copied(tmp_path: Path) -> None:
    with RecordWriter(tmp_path / "cluster.jsonl", CLUSTER) as writer:
        writer.copy(b'{"mono_ns": 6000, "ki', t0_monotonic_ns=0)
    assert (tmp_path / "cluster.jsonl").read_bytes() == b""


def test_many_bad_lines_are_told_as_a_number(tmp_path: Path) -> None:
    read = read_lines(written(tmp_path, *[b"x"] * 12), CLUSTER)
    assert read.problems[-1] == "cluster.jsonl: 7 more lines were left out"


def test_lines_and_their_length_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", 200)
    long = {**GOOD, "reason": "x" * 500}
    read = read_lines(written(tmp_path, GOOD, long, GOOD), CLUSTER)
    assert len(read.records) == 1
    assert "over a limit" in read.problems[0]
    monkeypatch.setattr(lines, "LINES_MAX", 2)
    assert len(read_lines(written(tmp_path, *[GOOD] * 5), CLUSTER).records) == 2


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "wire.jsonl").symlink_to(written(tmp_path, GOOD))
    read = read_lines(tmp_path / "wire.jsonl", WIRE)
    assert read.records == ()
    assert "not followed" in read.problems[0]


def test_a_metric_that_is_no_number_is_left_out_and_the_line_is_read(tmp_path: Path) -> None:
    """The Java client tells NaN until its first record is sent, and on a slow host the whole line was lost."""
    metrics = {"final": True, "0": {"batch-size-avg": math.nan, "request-total": 5.0, "name": "p"}}
    path = tmp_path / "stats.jsonl"
    with RecordWriter(path, STATS) as stats:
        stats.append(ClientSample.of(7, "workloads", metrics))
    found = read_lines(path, STATS)
    assert found.problems == ()
    assert [line.by_producer() for line in found.records] == [{"0": {"request-total": 5.0, "name": "p"}}]


def test_a_file_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert read_lines(tmp_path / "cluster.jsonl", CLUSTER).records == ()


values = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.lists(st.integers(), max_size=2)
)
kinds = st.sampled_from(sorted({*CLUSTER.types, *HISTORY.types}))
names = st.sampled_from(
    sorted({"isr", "x", *GOOD, *(name for family in FAMILIES for kind in family.types for name in family.needed(kind))})
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    found=st.lists(st.dictionaries(names, values | kinds, max_size=8) | st.binary(max_size=20), max_size=6),
    family=st.sampled_from(FAMILIES),
)
def test_whatever_the_lines_are_what_comes_through_has_its_fields(
    tmp_path: Path, found: list[object], family: Family[Any]
) -> None:
    read = read_lines(written(tmp_path, *found, name=family.name), family)
    for record in read.records:
        written_again = to_json(record)
        assert all(written_again[name] is not None for name in family.needed(str(written_again.get(family.tag))))
        assert type(record.t_us) is int
    assert len(read.records) + len(read.problems) <= sum(
        line.count(b"\n") + 1 if isinstance(line, bytes) else 1 for line in found
    )
