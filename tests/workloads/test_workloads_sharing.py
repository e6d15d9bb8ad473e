"""Members of share groups: their journal in the run log, what they decide, what a reader may ask of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from runlog.files.paths import events_path
from runlog.records.history import Acknowledged, AcknowledgementKind
from runlog.records.member import MemberSpec
from runlog.streams.parquet import read_stream
from runlog.streams.payload import make
from tests.json_lines import read_jsonl
from workloads.clients.member_protocol import SharePoll
from workloads.clients.protocol import PropertyError, ReceivedRecord
from workloads.clients.reference.share_member import ReferenceShareMember
from workloads.members import sharing
from workloads.members.journal import MemberJournal
from workloads.members.sharing import decision, run_share_member, share_setup_of
from workloads.members.spec import spec_text, to_properties
from workloads.members.transcribe import SHARE_ENDS, members_directory, transcribe_cell
from workloads.model import Workload
from workloads.reader_group import ReaderGroup

TOPIC = "t"
SPEC = MemberSpec(
    member="app-0", consumer=3, reader=1, incarnation=2, client="reference", bootstrap_servers="127.0.0.1:1",
    topic=TOPIC, group_id="t-app", journal="", is_share=True,
)  # fmt: skip


def value(seq: int) -> bytes:
    return make(producer=1, incarnation=0, seq=seq, intended_ns=2_000_000, body=b"x" * 40)


def record(offset: int) -> ReceivedRecord:
    return (TOPIC, 0, offset, value(offset), -1)


def polled(*offsets: int, count: int = 1) -> SharePoll:
    return SharePoll(
        records=[record(each) for each in offsets],
        counts=[count] * len(offsets),
        polled_ns=9_000_000,
        asked_ns=8_000_000,
    )


def test_a_journal_becomes_deliveries_and_the_history_of_a_share_group(tmp_path: Path) -> None:
    directory = members_directory(tmp_path, "c")
    directory.mkdir(parents=True)
    mine = replace(SPEC, journal=str(directory / "app-0-2.jsonl"))
    (directory / "app-0-2.json").write_text(spec_text(mine))
    journal = MemberJournal(Path(mine.journal))
    journal.share_polled(polled(5, 6, 8))
    journal.delivered([record(5), record(6)], 9_000_000)
    journal.acknowledged((TOPIC, 0), AcknowledgementKind.ACCEPT, Acknowledged.CONFIRMED, [5, 6])
    journal.acknowledged((TOPIC, 0), AcknowledgementKind.REJECT, Acknowledged.UNKNOWN, [8], "NETWORK_EXCEPTION")
    journal.close()
    (directory / SHARE_ENDS).write_text(
        '{"mono_ns":1000000,"kind":"share_end","group":"t-app","partition":0,"start_offset":3,"lag":4}\n'
        '{"mono_ns":2000000,"kind":"share_end","group":"t-app","partition":0,"start_offset":9,"lag":0}\n'
    )
    assert transcribe_cell(tmp_path, "c", topic=TOPIC, t0_monotonic_ns=1_000_000) == 2
    assert read_stream(tmp_path, "recv", "c").to_pydict()["offset"] == [5, 6]
    lines = {
        line["kind"] + str(line.get("type", "")): line for line in read_jsonl(events_path(tmp_path, "c", "history"))
    }
    given = lines["share_delivered"]
    assert (given["t_us"], given["asked_us"], given["ranges"]) == (8_000, 7_000, [[5, 6, 1], [8, 8, 1]])
    assert (given["group"], given["member"], given["incarnation"]) == ("t-app", "app-0", 2)
    assert (lines["share_acknowledgedaccept"]["ranges"], lines["share_acknowledgedaccept"]["outcome"]) == (
        [[5, 6]], "confirmed",
    )  # fmt: skip
    assert lines["share_acknowledgedreject"]["reason"] == "NETWORK_EXCEPTION"
    assert (lines["share_end"]["start_offset"], lines["share_end"]["lag"]) == (9, 0)


def test_the_application_releases_a_record_once_and_rejects_it_always() -> None:
    spec = replace(SPEC, commit="after", rejects_every=4, releases_every=6)
    said = {offset: [decision(spec, offset, count).value for count in (1, 2)] for offset in (4, 6, 7, 12)}
    assert said == {
        4: ["reject", "reject"], 6: ["release", "accept"], 7: ["accept", "accept"], 12: ["reject", "reject"],
    }  # fmt: skip


class FakeMember:
    def __init__(self, stop: threading.Event, polls: Sequence[SharePoll]) -> None:
        self._stop, self._polls = stop, list(polls)
        self.acknowledged: list[tuple[int, str]] = []
        self.is_closed = False

    def connect(self, timeout_s: float) -> None:
        return None

    def poll(self, timeout_s: float) -> SharePoll:
        if not self._polls:
            self._stop.set()
            return polled()
        return self._polls.pop(0)

    def acknowledge(self, record: ReceivedRecord, kind: AcknowledgementKind) -> None:
        self.acknowledged.append((record[2], kind.value))

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(("commit", "told"), [("auto", []), ("after", [(0, "accept"), (1, "accept")])])
def test_a_member_journals_before_it_works_and_acknowledges_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: str, told: list[tuple[int, str]]
) -> None:
    stop = threading.Event()
    member = FakeMember(stop, [polled(0, 1)])
    monkeypatch.setattr(sharing, "make_share_member", lambda client, setup, listener: member)
    path = tmp_path / "journal.jsonl"
    journal = MemberJournal(path)
    run_share_member(replace(SPEC, commit=commit), journal, stop)  # type: ignore[arg-type]
    journal.close()
    assert [line["kind"] for line in read_jsonl(path)] == ["started", "share_polled", "delivered", "left"]
    assert (member.acknowledged, member.is_closed) == (told, True)


def test_a_stop_in_the_middle_of_the_work_leaves_the_rest_unacknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = threading.Event()
    member = FakeMember(stop, [polled(*range(10))])
    monkeypatch.setattr(sharing, "make_share_member", lambda client, setup, listener: member)
    monkeypatch.setattr(time, "sleep", lambda duration_s: stop.set())
    journal = MemberJournal(tmp_path / "journal.jsonl")
    run_share_member(replace(SPEC, commit="after", processing_us=10_000), journal, stop)
    journal.close()
    assert member.acknowledged == [(0, "accept"), (1, "accept")]


def test_a_jvm_gets_the_mode_and_no_settings_of_offsets() -> None:
    for commit, mode in (("auto", "implicit"), ("after", "explicit")):
        text = to_properties(replace(SPEC, commit=commit, rejects_every=7))  # type: ignore[arg-type]
        assert f"consumer.share.acknowledgement.mode={mode}\n" in text
        assert "rejects_every=7\n" in text
        assert "auto.offset.reset" not in text
        assert "enable.auto.commit" not in text


def test_the_reference_member_refuses_by_name_what_the_reader_decides() -> None:
    setup = replace(share_setup_of(SPEC), properties={"share.acknowledgement.mode": "explicit"})
    with pytest.raises(PropertyError, match="the reader's `commit` decides that"):
        ReferenceShareMember(setup, None)  # type: ignore[arg-type]
    unknown = replace(setup, properties={"auto.offset.reset": "earliest"})
    with pytest.raises(PropertyError, match=r"share\.auto\.offset\.reset"):
        ReferenceShareMember(unknown, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reader", "problem"),
    [
        ({"mode": "share"}, "needs own_processes"),
        ({"mode": "share", "own_processes": True, "commit": "before"}, "acknowledge afterwards"),
        ({"mode": "share", "own_processes": True, "rejects_every": 3}, "need commit: after"),
        ({"mode": "group", "own_processes": True, "group_settings": {"a": "b"}}, "need mode: share"),
    ],
)
def test_a_reader_of_a_share_group_that_contradicts_itself_is_refused(reader: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ReaderGroup.model_validate({"name": "app", **reader})


def test_a_share_group_reads_one_topic() -> None:
    reader = {
        "name": "app",
        "mode": "share",
        "own_processes": True,
        "group_settings": {"share.delivery.count.limit": 3},
    }
    assert ReaderGroup.model_validate(reader).group_settings == {"share.delivery.count.limit": "3"}
    with pytest.raises(ValueError, match="share groups read one topic"):
        Workload.model_validate({"rate_per_s": 1, "topics": 2, "readers": [reader]})
