"""What a share group did with each record: directed cases, and random histories of a model group."""

from __future__ import annotations

import random
from typing import Any

import pytest

from reports.evidence.share_groups import Fate, ShareStory, sentences, share_findings, share_stories
from reports.read.cell import Cell
from tests.reports.cells import make_cell

GROUP = "t-app"
READER = {"name": "app", "mode": "share", "own_processes": True, "start_after_ms": None}


def delivered(t_us: int, *offsets: int, member: str = "app-0", count: int = 1, asked_us: int | None = None) -> Any:
    return {"t_us": t_us, "kind": "share_delivered", "group": GROUP, "member": member, "incarnation": 0, "partition": 0,
            "asked_us": t_us - 5 if asked_us is None else asked_us,
            "ranges": [[offset, offset, count] for offset in offsets]}  # fmt: skip


def said(t_us: int, *offsets: int, kind: str = "accept", outcome: str = "confirmed", member: str = "app-0") -> Any:
    return {"t_us": t_us, "kind": "share_acknowledged", "group": GROUP, "member": member, "incarnation": 0,
            "partition": 0, "type": kind, "outcome": outcome,
            "ranges": [[offset, offset] for offset in offsets]}  # fmt: skip


def lives(member: str, *, leaves: bool = True) -> list[Any]:
    who = {"group": GROUP, "member": member, "incarnation": 0}
    return [{"t_us": 0, "kind": "started", **who}, *([{"t_us": 10**9, "kind": "left", **who}] if leaves else [])]


def end(start_offset: int, lag: int | None) -> Any:
    return {
        "t_us": 10**9,
        "kind": "share_end",
        "group": GROUP,
        "partition": 0,
        "start_offset": start_offset,
        "lag": lag,
    }


def cell_of(*history: Any, end_offset: int, reader: dict[str, Any] | None = None, start_offset: int = 0) -> Cell:
    document = {
        "topic": {"name": "t", "partitions": 1, "replication_factor": 1, "config": {}},
        "workload": {"readers": [READER | (reader or {})]},
        "outcome": {
            "final_read": {
                "complete": True,
                "reason": "",
                "end_offsets": {"0": end_offset},
                "start_offsets": {"0": start_offset},
            }
        },
    }
    return make_cell(document=document, history=history)


def story_of(*history: Any, end_offset: int, reader: dict[str, Any] | None = None) -> ShareStory:
    [story] = share_stories(cell_of(*history, end_offset=end_offset, reader=reader))
    assert sum(story.fates.values()) == end_offset
    return story


def fates(story: ShareStory) -> dict[str, int]:
    return {fate.value: count for fate, count in story.fates.items() if count}


def test_each_record_has_the_fate_that_its_members_and_the_group_tell() -> None:
    history = [
        *lives("app-0"), *lives("app-1", leaves=False),
        delivered(10, 0, 1, 2, 3), said(20, 0), said(20, 1, kind="reject"), said(20, 2, outcome="unknown"),
        said(20, 3, kind="release"), delivered(30, 3, count=2), said(40, 3),
        delivered(50, 4, count=5), said(60, 4, kind="release"),
        delivered(50, 5, member="app-1"),
        delivered(50, 6), said(60, 6, outcome="refused"),
        end(8, 0),
    ]  # fmt: skip
    story = story_of(*history, end_offset=8)
    assert fates(story) == {"accepted": 2, "rejected": 1, "unknown": 2, "archived": 1, "lost": 2}
    assert story.lost == (
        "group t-app partition 0 offset 6: 1 deliveries, nobody accepted it",
        "group t-app partition 0 offset 7: no delivery, nobody accepted it",
    )
    assert (story.again, story.deliveries, story.is_end_known) == (1, 8, True)


def test_what_the_group_is_not_done_with_is_open_and_not_lost() -> None:
    story = story_of(delivered(10, 0, 1), said(20, 0), end(1, 2), end_offset=3)
    assert fates(story) == {"accepted": 1, "open": 2}
    assert story.lost == ()


def test_without_an_answer_of_the_coordinator_nothing_is_lost_and_the_end_is_not_known() -> None:
    for told in ([], [end(1, None)]):
        story = story_of(delivered(10, 0), said(20, 0), *told, end_offset=2)
        assert (fates(story), story.is_end_known) == ({"accepted": 1, "open": 1}, False)


def test_records_before_the_start_offset_are_done_also_without_a_lag() -> None:
    assert fates(story_of(delivered(10, 0), said(20, 0), end(2, None), end_offset=2)) == {"accepted": 1, "lost": 1}


@pytest.mark.parametrize("kind", ["accept", "reject"])
def test_a_delivery_that_was_asked_for_after_the_acknowledgement_was_confirmed_is_damage(kind: str) -> None:
    first = [delivered(10, 0), said(20, 0, kind=kind)]
    late = delivered(90, 0, member="app-1", count=2, asked_us=21)
    waited = delivered(90, 0, member="app-1", count=2, asked_us=19)
    assert share_findings(cell_of(*first, late, end(1, 0), end_offset=1))["share_after_done"] == [
        "group t-app partition 0 offset 0: delivered again after it was done"
    ]
    assert share_findings(cell_of(*first, waited, end(1, 0), end_offset=1))["share_after_done"] == []


@pytest.mark.parametrize(("kind", "outcome"), [("accept", "unknown"), ("accept", "refused"), ("release", "confirmed")])
def test_a_delivery_after_any_other_acknowledgement_is_lawful(kind: str, outcome: str) -> None:
    again = [delivered(10, 0), said(20, 0, kind=kind, outcome=outcome), delivered(90, 0, count=2), said(95, 0)]
    story = story_of(*again, end(1, 0), end_offset=1)
    assert (story.after_done, fates(story)) == ((), {"accepted": 1})


def test_a_dead_member_may_have_had_the_last_delivery_that_is_allowed() -> None:
    history = [*lives("app-0"), *lives("app-1", leaves=False), delivered(10, 0, count=4), said(20, 0, kind="release")]
    assert fates(story_of(*history, end(2, 0), end_offset=2)) == {"unknown": 1, "lost": 1}


def test_the_limit_is_that_of_the_group_else_kafkas() -> None:
    def over(count: int, limit: str | None) -> list[str]:
        settings = {} if limit is None else {"group_settings": {"share.delivery.count.limit": limit}}
        history = [delivered(10, 0, count=count), said(20, 0), end(1, 0)]
        return share_findings(cell_of(*history, end_offset=1, reader=settings))["share_over_limit"]

    assert over(5, None) == []
    assert over(6, None) == ["group t-app partition 0 offset 0: delivery 6, 5 are allowed"]
    assert over(3, "2") == ["group t-app partition 0 offset 0: delivery 3, 2 are allowed"]


def test_a_group_that_begins_at_the_end_is_judged_by_what_it_was_given() -> None:
    cell = cell_of(delivered(10, 5), said(20, 5), end(6, 0), end_offset=6, reader={"start": "latest"})
    [story] = share_stories(cell)
    assert fates(story) == {"accepted": 1}


def test_the_words_name_what_happened_and_nothing_else() -> None:
    quiet = story_of(delivered(10, 0), said(20, 0), end(1, 0), end_offset=1)
    assert sentences(quiet) == ["share group t-app: 1 of 1 record(s) were accepted; none came again"]
    loud = story_of(delivered(10, 0), said(20, 0, kind="reject"), end(2, 0), end_offset=2)
    assert sentences(loud) == [
        "share group t-app: 0 of 2 record(s) were accepted, 1 were rejected, 1 were given up by the group although "
        "nobody accepted them; none came again"
    ]


def test_what_retention_took_before_the_group_is_not_given_up_by_the_group() -> None:
    """Two records were deleted before anybody got them. The third was not, and the group passed over it."""
    lines = (*lives("app-0"), delivered(10, 3), said(20, 3), end(4, 0))
    (story,) = share_stories(cell_of(*lines, end_offset=4, start_offset=2))
    assert (story.fates[Fate.REMOVED], story.fates[Fate.LOST], story.fates[Fate.ACCEPTED]) == (2, 1, 1)
    assert [case.split(":")[0] for case in story.lost] == [f"group {GROUP} partition 0 offset 2"]
    assert "2 were removed from the log before the group was done with them" in sentences(story)[0]


def test_cells_without_share_groups_have_no_story() -> None:
    assert share_stories(make_cell()) == []


class Model:
    """A share group that keeps its promises: members that hold records, die, and do not hear answers."""

    def __init__(self, rng: random.Random, records: int, limit: int) -> None:
        self.rng, self.records, self.limit, self.now_us = rng, records, limit, 100
        self.counts = dict.fromkeys(range(records), 0)
        self.done: set[int] = set()
        self.history: list[Any] = []
        self.members = {name: 0 for name in ("app-0", "app-1")}
        for name in self.members:
            self._event("started", name)

    def _event(self, kind: str, member: str) -> None:
        self.history.append({"t_us": self.now_us, "kind": kind, "group": GROUP, "member": member,
                             "incarnation": self.members[member]})  # fmt: skip

    def step(self) -> None:
        self.now_us += 100
        left = [offset for offset in self.counts if offset not in self.done]
        if not left:
            return
        offset, member = self.rng.choice(left), self.rng.choice(list(self.members))
        self.counts[offset] += 1
        is_last = self.counts[offset] == self.limit
        fate = self.rng.choice(["accept", "reject", "release", "unknown, done", "unknown, open", "dies", "silent"])
        who = {"member": member, "incarnation": self.members[member]}
        if fate == "dies" and self.rng.random() < 0.5:  # before it has written what it got
            pass
        else:
            self.history.append(delivered(self.now_us, offset, count=self.counts[offset]) | who)
        if fate in ("accept", "reject", "release"):
            self.history.append(said(self.now_us + 50, offset, kind=fate) | who)
        elif fate.startswith("unknown"):
            self.history.append(said(self.now_us + 50, offset, outcome="unknown") | who)
        elif fate == "dies":
            self.members[member] += 1
            self._event("started", member)
        is_done = fate in ("accept", "reject", "unknown, done") or (fate == "dies" and self.rng.random() < 0.3)
        if is_done or is_last:
            self.done.add(offset)

    def finish(self) -> None:
        self.now_us += 100
        for name in self.members:
            self._event("left", name)


@pytest.mark.parametrize("seed", range(60))
def test_a_group_that_keeps_its_promises_is_never_accused(seed: int) -> None:
    rng = random.Random(seed)
    model = Model(rng, records=30, limit=4)
    for _ in range(rng.choice([20, 60, 400])):
        model.step()
    model.finish()
    lag = len(model.counts) - len(model.done)
    cell = cell_of(
        *model.history, end(0, lag), end_offset=30, reader={"group_settings": {"share.delivery.count.limit": "4"}}
    )
    [story] = share_stories(cell)
    assert (story.after_done, story.over_limit) == ((), ())
    assert story.lost == ()
    assert sum(story.fates.values()) == 30
    if lag:
        assert story.fates[Fate.ARCHIVED] == story.fates[Fate.LOST] == 0


@pytest.mark.parametrize("seed", range(30))
def test_a_group_that_forgets_a_confirmed_acceptance_is_always_accused(seed: int) -> None:
    rng = random.Random(seed)
    model = Model(rng, records=30, limit=4)
    for _ in range(200):
        model.step()
    accepted = [line for line in model.history if line.get("type") == "accept" and line["outcome"] == "confirmed"]
    offset = rng.choice(accepted)["ranges"][0][0]
    model.now_us += 100
    model.history.append(delivered(model.now_us, offset, count=1))
    model.finish()
    found = share_findings(cell_of(*model.history, end(30, 0), end_offset=30))
    assert found["share_after_done"] == [f"group t-app partition 0 offset {offset}: delivered again after it was done"]
