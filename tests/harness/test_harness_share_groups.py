"""The harness's part in share groups: what coordinators say at the end, what members hold, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from broker.client.admin_shares import ShareOffset
from broker.door.clients import TopicPartition
from harness.errors import CellError
from harness.run.cells.members import MemberProcesses
from harness.run.cells.share_groups import ShareGroups, held_by
from runlog.records.lines import MEMBER_JOURNAL, own_lines
from runlog.records.member import MemberSpec
from runlog.records.member_journal import ShareEnd
from tests.harness.test_harness_members import members, planned
from workloads.clients.member_protocol import SharePoll
from workloads.members.journal import MemberJournal
from workloads.members.transcribe import SHARE_ENDS

SPEC = MemberSpec(
    member="app-0", consumer=0, reader=0, incarnation=0, client="reference", bootstrap_servers="h:1", topic="t",
    group_id="t-app", journal="", is_share=True,
)  # fmt: skip


class Told:
    def __init__(self, **lags: tuple[int, int | None]) -> None:
        self._offsets = {
            TopicPartition("t", int(name[1:])): ShareOffset(start_offset=start, leader_epoch=0, lag=lag)
            for name, (start, lag) in lags.items()
        }

    def offsets(self, group_id: str) -> Mapping[TopicPartition, ShareOffset]:
        assert group_id == "t-app"
        return self._offsets


@pytest.mark.parametrize(
    ("told", "missing"),
    [
        (Told(p0=(10, 0), p1=(3, 0)), ""),
        (Told(p0=(10, 0), p1=(3, 2)), "partition 1: 2 records are not done, from offset 3 on"),
        (Told(p0=(10, 0)), "has not begun with partition 1"),
        (Told(p0=(10, None), p1=(5, None)), ""),
        (Told(p0=(9, None), p1=(5, None)), "partition 0: no lag is told"),
    ],
)
def test_a_group_is_done_when_its_coordinator_says_so(tmp_path: Path, told: Told, missing: str) -> None:
    groups = ShareGroups([SPEC], "h:1", {}, tmp_path)
    found = groups.missing_of(told, {"t": {0: 10, 1: 5}})
    assert missing in found
    assert bool(found) == bool(missing)
    lines = [line for line in own_lines(tmp_path / SHARE_ENDS, MEMBER_JOURNAL) if isinstance(line, ShareEnd)]
    assert {line.partition: (line.start_offset, line.lag) for line in lines} == {
        each.partition: (at.start_offset, at.lag) for each, at in told.offsets("t-app").items()
    }


def test_a_partition_whose_end_is_not_known_is_missing_and_nobody_is_asked(tmp_path: Path) -> None:
    groups = ShareGroups([SPEC], "127.0.0.1:1", {}, tmp_path)
    assert groups.missing(lambda topic, partition: None, 2) == "partition 0 of t: its end is not known"


def test_a_cell_without_share_groups_asks_nobody(tmp_path: Path) -> None:
    groups = ShareGroups([], "127.0.0.1:1", {}, tmp_path)
    groups.prepare()
    assert groups.missing(lambda topic, partition: 5, 2) == ""


def test_what_a_member_holds_stands_in_its_journal(tmp_path: Path) -> None:
    path = tmp_path / "app-0-0.jsonl"
    journal = MemberJournal(path)
    records = [("t", 0, offset, b"", 0) for offset in range(3)]
    journal.share_polled(SharePoll(records=records, counts=[1, 1, 2], polled_ns=2, asked_ns=1))
    assert held_by(path) == 3
    journal.delivered(records[:2], 2)
    assert held_by(path) == 1
    journal.delivered(records[2:], 2)
    assert held_by(path) == 0
    journal.close()


def test_a_client_without_share_groups_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CellError, match="aiokafka is no member of share groups; reference, confluent, java are"):
        members(tmp_path, "share-consumer-killed", "aiokafka")


def test_members_of_a_share_group_know_it_and_begin_where_the_reader_says(tmp_path: Path) -> None:
    processes: MemberProcesses = members(tmp_path, "share-consumer-killed", "java")
    assert processes.names() == ("app-0", "app-1", "app-2")
    cell = planned("share-consumer-killed", "java")
    assert cell.workload.readers[0].mode == "share"
