"""Which records may be gone lawfully: by settings and journals to the record. Without a journal it may be in doubt."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.evidence.record_keys import key_rows, record_keys
from reports.evidence.removals import Removal, removals, start_offsets
from reports.evidence.topic_events import NEVER_US
from reports.read.cell import Cell
from runlog.streams.record_keys import TURNS, fingerprint, key_numbers
from tests.reports.cells import make_cell

MB, HOUR_US, HOUR_MS = 1 << 20, 3_600_000_000, 3_600_000
Event = dict[str, Any]


def cell(
    *events: Event,
    start: int = 0,
    kept: int = 0,
    config: dict[str, str] | None = None,
    journal: bool = True,
    faults: list[Event] | None = None,
    **final_read: Any,
) -> Cell:
    """Partition 0 begins at `start` and holds `kept` bytes."""
    read = {"complete": True, "end_offsets": {"0": 1000}, "start_offsets": {"0": start}, "size_bytes": {"0": kept}}
    document = {
        "topic": {"name": "t", "partitions": 4, "replication_factor": 3, "config": config or {}},
        "workload": {"topics": 2},
        "outcome": {"ended_us": 10 * HOUR_US, "final_read": {**read, **final_read}},
    }
    calm = [{"t_us": 1, "kind": "started", "source": "journal", "broker": 1}] if journal else []
    return make_cell(document=document, events=[*calm, *events], faults=faults or ())


def expiry(*expired: tuple[int, int], first: int = 0, t_us: int = 5 * HOUR_US, **more: Any) -> Event:
    """Retention deletes segments, each given by its end offset and the bytes left."""
    line = {"t_us": t_us, "kind": "log_start_advance", "source": "journal", "broker": 1, "topic": "t", "partition": 0}
    facts = {"cause": "retention", "from_offset": first, "log_start_offset": expired[-1][0], "expired": list(expired)}
    return line | facts | more


def deletion(offset: int, *, first: int = 0, **more: Any) -> Event:
    return expiry((offset, 0), first=first, cause="delete_records", expired=[], **more)


def gone(found: Cell) -> list[tuple[int, int]]:
    return [(item.from_offset, item.end_offset) for item in removals(found).found]


def test_what_is_too_much_for_retention_bytes_is_gone_lawfully() -> None:
    made = cell(expiry((100, 3 * MB), (200, 2 * MB)), start=200, kept=3 * MB, config={"retention.bytes": str(2 * MB)})
    found = removals(made)
    assert found.found == (Removal(partition=0, from_offset=0, end_offset=200),)
    assert (found.causes, found.doubts, found.beyond) == ((f"retention.bytes={2 * MB}",), (), ())


def test_a_broker_that_keeps_less_than_retention_bytes_is_told_by_the_segment() -> None:
    """The second segment was deleted although less than the limit was left: its records are lost."""
    made = cell(
        expiry((100, 2 * MB), (200, 2 * MB - 1)), start=200, kept=3 * MB, config={"retention.bytes": str(2 * MB)}
    )
    assert gone(made) == [(0, 100)]  # retention.ms is a week: no record of the run is that old
    assert removals(made).beyond == (
        "partition 0 begins at offset 200; what settings and journals explain ends at 100",
    )


def test_a_broker_that_tells_more_bytes_than_its_log_has_is_not_believed() -> None:
    config = {"retention.bytes": str(2 * MB), "retention.ms": "-1"}
    lying = expiry((100, 5 * MB), (200, 4 * MB))
    assert gone(cell(lying, start=200, kept=2 * MB, config=config)) == [(0, 200)]
    assert gone(cell(lying, start=200, kept=2 * MB - 1, config=config)) == [(0, 100)]
    cut = {"t_us": 9 * HOUR_US, "kind": "truncated", "source": "journal", "broker": 2, "topic": "t", "partition": 0,
           "leader_epoch": 1, "from_offset": 900, "to_offset": 800}  # fmt: skip
    assert gone(cell(lying, cut, start=200, kept=2 * MB - 1, config=config)) == [(0, 200)]  # it may have had the rest


def test_by_time_only_old_records_are_gone_lawfully() -> None:
    made = cell(expiry((100, MB)), start=100, kept=MB, config={"retention.ms": str(HOUR_MS)})
    (found,) = removals(made).found
    assert (found.from_offset, found.end_offset) == (0, 100)
    assert 4 * HOUR_US <= found.sent_before_us < 4 * HOUR_US + 2_000_000


def test_a_clock_that_a_fault_had_set_wrong_makes_records_old() -> None:
    jump = {"kind": "clock_jump", "phase": "proved", "detail": {"offset_s": -3600}}
    made = cell(expiry((100, MB)), start=100, config={"retention.ms": str(2 * HOUR_MS)}, faults=[jump])
    (found,) = removals(made).found
    assert 4 * HOUR_US <= found.sent_before_us < 4 * HOUR_US + 2_000_000


def test_without_a_policy_to_delete_nothing_is_deleted_lawfully() -> None:
    made = cell(expiry((100, 9 * MB)), start=100, config={"cleanup.policy": "compact", "retention.bytes": "1"})
    assert [(item.from_offset, item.is_known) for item in removals(made).found] == [
        (0, False)
    ]  # by compaction, perhaps


def test_what_a_client_deletes_is_gone_up_to_the_offset_that_it_asked_for() -> None:
    found = removals(cell(deletion(70), start=70))
    assert (found.found, found.causes) == ((Removal(partition=0, from_offset=0, end_offset=70),), ("DeleteRecords",))
    assert gone(cell(deletion(70), start=90)) == [(0, 70)]
    assert removals(cell(deletion(70), start=90)).beyond


def test_a_fault_that_deleted_records_is_believed_up_to_the_offset_that_it_asked_for() -> None:
    proof = {"kind": "records_deleted", "phase": "proved", "detail": {"partition": 0, "start_offset": 90, "wanted": 70}}
    assert gone(cell(start=90, faults=[proof])) == [(0, 70)]
    assert gone(cell(deletion(90), start=90, faults=[proof])) == [(0, 90)]


def test_nothing_above_the_start_of_the_final_log_is_gone_lawfully() -> None:
    """A follower may have deleted more than the leader of the end."""
    config = {"retention.bytes": "1"}
    made = cell(expiry((100, MB)), expiry((100, MB), (300, MB), broker=2), start=100, kept=MB, config=config)
    assert gone(made) == [(0, 100)]
    assert gone(cell(expiry((100, MB)), start=0, config=config)) == []


def test_a_gap_in_what_is_explained_is_told() -> None:
    made = cell(expiry((100, 5), first=50), start=100, kept=5, config={"retention.bytes": "5", "retention.ms": "-1"})
    assert gone(made) == [(50, 100)]
    assert removals(made).beyond == ("partition 0 begins at offset 100; what settings and journals explain ends at 0",)


def test_the_lowest_limit_of_the_cell_counts() -> None:
    """Before the fault and after it another value was in force; the journal does not say which one a broker saw."""
    told = {"setting": "retention.bytes", "told": {"broker 1": "5"}}
    change = {"kind": "topic_setting", "phase": "proved", "detail": told}
    assert gone(cell(expiry((100, 5)), start=100, kept=5, config={"retention.ms": "-1"}, faults=[change])) == [(0, 100)]


def test_each_topic_of_a_cell_has_partitions_of_its_own() -> None:
    config = {"retention.bytes": "5", "retention.ms": "-1"}
    lines = [expiry((100, 5), topic="t-t1", partition=1), expiry((100, 5), topic="other")]
    made = cell(*lines, config=config, start_offsets={"5": 100}, size_bytes={"5": 9})
    assert removals(made).found == (Removal(partition=5, from_offset=0, end_offset=100),)


# --- without a journal ------------------------------------------------------------------------------------------------


def test_without_a_journal_the_bytes_that_are_left_must_fit() -> None:
    config = {"retention.bytes": str(2 * MB)}
    fits = removals(cell(start=200, kept=2 * MB, config=config, journal=False))
    assert (fits.found, fits.doubts) == ((Removal(partition=0, from_offset=0, end_offset=200),), ())
    less = removals(cell(start=200, kept=2 * MB - 1, config=config, journal=False))
    assert less.found[-1] == Removal(partition=0, from_offset=0, end_offset=200, is_known=False)
    assert "somebody may have deleted records" in less.doubts[0]
    assert (less.beyond, fits.beyond) == ((), ())  # never a fail


def test_without_a_journal_what_is_too_young_for_retention_ms_is_in_doubt() -> None:
    made = removals(cell(start=200, config={"retention.ms": str(HOUR_MS)}, journal=False))
    old, young = made.found
    assert (old.is_known, young.is_known, young.sent_before_us) == (True, False, NEVER_US)
    assert 9 * HOUR_US <= old.sent_before_us < 9 * HOUR_US + 2_000_000


def test_without_a_journal_and_a_setting_everything_below_the_start_is_in_doubt() -> None:
    made = removals(cell(start=200, config={"cleanup.policy": "compact"}, journal=False))
    assert {item.is_known for item in made.found} == {False}


# --- compaction -------------------------------------------------------------------------------------------------------

COMPACT = {"cleanup.policy": "compact"}
LOAD = {"topics": 2, "keys": "zipf", "key_count": 9, "key_zipf_exponent": 1.5, "key_hot_share": 0.5}
NUMBERS = key_numbers("zipf", count=9, zipf_exponent=1.5, hot_share=0.5, seed=4)


def compacted(*events: Event, journal: bool = True, **changes: Any) -> Cell:
    """Its keys are those of the second round of seed 3, unless `changes` say otherwise."""
    assert NUMBERS is not None
    document = {
        "topic": {"name": "t", "partitions": 4, "replication_factor": 3, "config": COMPACT},
        "workload": LOAD,
        "seed": 3,
        "round": 2,
        "outcome": {
            "ended_us": 10 * HOUR_US,
            "final_read": {
                "complete": True, "end_offsets": {"0": 1000, "1": 50}, "start_offsets": {"0": 0, "1": 0},
                "keys_crc": fingerprint(NUMBERS),
            },
        },
    }  # fmt: skip
    calm = [{"t_us": 1, "kind": "started", "source": "journal", "broker": 1}] if journal else []
    return make_cell(document={**document, **changes}, events=[*calm, *events])


def compaction(end: int, **more: Any) -> Event:
    line = {"t_us": 9, "kind": "compaction_begun", "source": "journal", "broker": 1, "topic": "t", "partition": 0}
    return line | {"first_dirty_offset": 0, "end_offset": end} | more


def test_the_keys_of_a_cell_are_those_of_its_plan_if_the_final_read_found_them() -> None:
    found = record_keys(compacted())
    assert found is not None
    assert NUMBERS is not None
    assert found.tolist() == NUMBERS.tolist()
    assert len(list(key_rows("c", found))) == TURNS
    assert list(key_rows("c", found))[7] == ("c", 7, int(NUMBERS[7]))


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 4}, {"seed": None}, {"round": 1}, {"workload": LOAD | {"keys": "none"}}, {"workload": {"topics": 2}},
        {"workload": LOAD | {"key_count": 10}}, {"workload": LOAD | {"key_count": None}},
        {"workload": LOAD | {"keys": "hot", "key_hot_share": 7.0}},
        {"outcome": {"final_read": {"complete": True, "end_offsets": {"0": 1000}}}},
    ],
)  # fmt: skip
def test_keys_that_are_not_known_leave_all_that_is_gone_in_doubt(changes: dict[str, Any]) -> None:
    made = compacted(compaction(900), **changes)
    assert record_keys(made) is None
    found = removals(made)
    assert {(item.is_known, item.needs_newer) for item in found.found} == {(False, False)}
    assert "keys" in found.doubts[0]
    assert found.causes == ()


def test_what_a_compaction_went_over_is_gone_lawfully_if_there_is_a_newer_record_of_its_key() -> None:
    found = removals(compacted(compaction(300), compaction(700, broker=2), compaction(20, partition=1)))
    assert found.found == (
        Removal(partition=0, from_offset=0, end_offset=700, needs_newer=True),
        Removal(partition=1, from_offset=0, end_offset=20, needs_newer=True),
    )
    assert (found.causes, found.doubts, found.beyond) == (("compaction",), (), ())


def test_after_a_compaction_a_truncation_below_it_leaves_what_it_removed_in_doubt() -> None:
    """It may have cut off the newer records for which the older ones were removed."""

    def cut(to_offset: int, **more: Any) -> Event:
        line = {"kind": "truncated", "source": "journal", "topic": "t", "partition": 0, "leader_epoch": 1}
        return line | {"t_us": 20, "broker": 1, "from_offset": 950, "to_offset": to_offset} | more

    exact = removals(compacted(compaction(700)))
    assert removals(compacted(compaction(700), cut(700))) == exact, "a truncation above takes none of them"
    assert removals(compacted(compaction(700), cut(600, broker=2))) == exact, "that broker had removed nothing"
    assert removals(compacted(compaction(700), cut(600, t_us=5))) == exact, "it came before"
    found = removals(compacted(compaction(700), cut(600)))
    assert found.found == (*exact.found, Removal(partition=0, from_offset=0, end_offset=700, is_known=False))
    assert "truncated" in found.doubts[0]


def test_what_no_compaction_went_over_is_not_gone_lawfully() -> None:
    """The active segment is never compacted."""
    assert removals(compacted()).found == ()
    assert gone(compacted(compaction(5000))) == [(0, 1000)], "a line beyond the log explains no more than the log"
    assert gone(compacted(compaction(700, topic="other"))) == []


def test_without_a_journal_only_what_has_a_newer_record_is_in_doubt() -> None:
    found = removals(compacted(journal=False))
    assert {(item.is_known, item.needs_newer) for item in found.found} == {(False, True)}
    assert [item.end_offset for item in found.found] == [1000, 50]
    assert "no journal" in found.doubts[0]


def test_a_cell_of_an_older_run_leaves_it_in_doubt() -> None:
    made = removals(cell(config=COMPACT))
    assert made.found == (Removal(partition=0, from_offset=0, end_offset=1000, is_known=False),)
    assert "keys" in made.doubts[0]


def test_an_older_run_knows_the_start_only_from_a_deletion() -> None:
    proof = {"kind": "records_deleted", "phase": "proved", "detail": {"partition": 0, "start_offset": 70}}
    made = cell(faults=[proof], start_offsets=None)
    assert start_offsets(made) == {0: 70}
    assert gone(made) == [(0, 70)]
    assert start_offsets(cell(start_offsets=None)) == {}


# --- random cuts ------------------------------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(min_value=1, max_value=50), min_size=2, max_size=12),
    limit=st.integers(min_value=0, max_value=400),
    too_many=st.integers(min_value=0, max_value=3),
)
def test_each_offset_is_judged_by_what_was_left_behind_it(sizes: list[int], limit: int, too_many: int) -> None:
    """Segments of ten offsets and given sizes. A broker deletes as many as it may, and `too_many` more."""
    left = [sum(sizes[number + 1 :]) for number in range(len(sizes))]
    allowed = sum(1 for bytes_left in left if bytes_left >= limit)
    cut = min(allowed + too_many, len(sizes) - 1)
    allowed = min(allowed, cut)
    if not cut:
        return
    expired = [(10 * (number + 1), left[number]) for number in range(cut)]
    config = {"retention.bytes": str(limit), "retention.ms": "-1"}
    made = cell(expiry(*expired), start=10 * cut, kept=left[cut - 1], config=config)
    explained = {offset for item in removals(made).found for offset in range(item.from_offset, item.end_offset)}
    assert explained == set(range(10 * allowed))
    assert bool(removals(made).beyond) == (cut > allowed)


@pytest.mark.parametrize("start", [0, 1, 999])
def test_what_lies_below_the_start_is_explained_once(start: int) -> None:
    made = cell(expiry((1000, 5)), deletion(1000), start=start, kept=5, config={"retention.bytes": "5"})
    assert gone(made) == ([(0, start)] if start else [])
