"""The story of a record in a group or a copy loop: who committed past it, who went on, which copies there are."""

from __future__ import annotations

from reports.evidence.group_story import DELIVERY_STORIES, final_step, group_steps
from reports.evidence.history import commit_limits, group_findings
from reports.judge.anomalies import BY_NAME
from reports.read.cell import Json
from reports.read.model import CopyRow, LogRow, SendRow, Story
from tests.reports.cells import make_cell

SEND = SendRow(partition=2, offset=7, status=0, intended_us=100, sent_us=100, acked_us=200)
LOG = LogRow(partition=2, offset=7, leader_epoch=0)


def history(*lines: Json) -> tuple[Json, ...]:
    return tuple({"member": "app-0", "partition": 2, **line} for line in lines)


def test_a_record_that_was_passed_over_was_committed_then_its_member_died_and_another_went_on() -> None:
    cell = make_cell(
        cell_id="c",
        document={},
        history=history(
            {"t_us": 150, "kind": "committed", "offset": 7},  # not past it
            {"t_us": 300, "kind": "committed", "offset": 20},
            {"t_us": 310, "kind": "committed", "offset": 30, "partition": 1},
            {"t_us": 900, "kind": "position", "offset": 20, "member": "app-1"},
        ),
        faults=(
            {"t_us": 50, "kind": "client_kill", "phase": "applied", "resolved": ["app-2"]},  # before it was due
            {"t_us": 400, "kind": "client_kill", "phase": "applied", "resolved": ["app-0"]},
            {"t_us": 410, "kind": "client_kill", "phase": "proved", "resolved": ["app-0"]},
        ),
    )
    story = Story(kind="lost_in_delivery", producer=0, incarnation=0, seq=7, send=(SEND,), log=(LOG,))
    steps = group_steps(cell, story)
    assert [(step.t_us, step.what) for step in steps] == [(300, "committed"), (900, "next owner"), (400, "fault")]
    assert "done up to offset 19" in steps[0].detail
    assert steps[0].bad
    assert steps[2].detail == "app-0 is killed (SIGKILL)"
    end = final_step(story)
    assert end is not None
    assert (end.what, end.bad) == ("passed over", True)


def test_each_copy_says_how_its_transaction_ended_in_the_log_and_for_its_copier() -> None:
    told = {"t_us": 5, "kind": "transaction", "copier": 3, "incarnation": 1, "number": 4, "outcome": "unknown",
            "asked_us": 450, "reason": "timed out"}  # fmt: skip
    cell = make_cell(cell_id="c", document={}, history=(told,))
    copies = (
        CopyRow(partition=2, offset=10, copier=3, copier_incarnation=1, txn=4, outcome=1),
        CopyRow(partition=2, offset=12, copier=3, copier_incarnation=1, txn=5, outcome=0),
    )
    first, second = group_steps(cell, Story(kind="copied_twice", producer=0, incarnation=0, seq=7, copies=copies))
    assert (first.t_us, first.what, first.bad) == (450, "copied", False)
    assert "committed in the log, unknown as the copier was told (timed out)" in first.detail
    assert (second.t_us, second.what, second.bad) == (None, "not copied", True)
    assert "aborted in the log" in second.detail


def test_other_damage_ends_as_before_and_cells_without_members_add_nothing() -> None:
    assert final_step(Story(kind="lost", producer=0, incarnation=0, seq=0)) is None
    assert group_steps(make_cell(cell_id="c", document={}), Story(kind="lost", producer=0, incarnation=0, seq=0)) == []
    assert set(DELIVERY_STORIES) <= set(BY_NAME)


def test_a_frozen_member_has_its_freeze_more_to_commit() -> None:
    def line(phase: str, t_us: int, fault: str = "freeze", kind: str = "client_pause") -> dict[str, object]:
        return {"id": fault, "kind": kind, "phase": phase, "t_us": t_us}

    readers = [{"name": "app", "own_processes": True, "properties": {"auto.commit.interval.ms": "1000"}}]
    document = {"workload": {"readers": readers}}
    freezes = (line("applied", 5_000_000), line("proved", 5_100_000), line("healed", 14_000_000))
    kill = (line("applied", 1, "k", "client_kill"), line("healed", 60_000_000, "k", "client_kill"))
    assert commit_limits(make_cell(cell_id="c", document=document, faults=kill)) == [(0, 3_000_000)]
    assert commit_limits(make_cell(cell_id="c", document=document, faults=(*kill, *freezes))) == [(0, 12_000_000)]
    brokers = (line("applied", 1, "b", "kill"),)
    assert commit_limits(make_cell(cell_id="c", document=document, faults=brokers)) == []


def given(*lines: Json, faults: tuple[Json, ...] = ()) -> list[str]:
    common = {"group": "g", "generation": -1}
    told = tuple({**common, "t_us": number * 100_000, **line} for number, line in enumerate(lines))
    return group_findings(make_cell(cell_id="c", document={}, history=told, faults=faults))["double_owner"]


def test_a_partition_that_is_given_before_its_owner_let_go_of_it_has_two_owners() -> None:
    got, gave = (
        {"kind": kind, "member": member, "partitions": [3]} for kind, member in (("assigned", "b"), ("revoked", "a"))
    )
    has: Json = {"kind": "assigned", "member": "a", "partitions": [3]}
    assert given(has, gave, got) == []
    assert given(has, got, gave) == ["group g partition 3: b before a let go of it"]
    frozen = ({"kind": "client_pause", "phase": "applied", "t_us": 50_000, "resolved": ["a"]},)
    assert given(has, got, gave, faults=frozen) == []
    assert given(has, {**got, "t_us": 5_000_000}, {**gave, "t_us": 5_100_000}) == []  # silent for too long
