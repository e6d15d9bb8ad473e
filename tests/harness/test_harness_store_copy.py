"""A run in the store: what is kept and given back, what a failing store costs, and what a stranger's cannot do."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.errors import EnvironmentFault, UsageError
from harness.run.hosts import store_copy
from harness.run.hosts.load_hosts import HubLoad
from harness.run.hosts.store_copy import RunCopy, fetch_host, keep_cell
from harness.run.hosts.store_rebuild import find_run, rebuild
from runlog.files.store import DirectoryStore, StoreError, open_store
from runlog.files.stored import StoredFile, StoredList, host_prefix, index_name, kept_name, read_list
from runlog.records.documents import read_run_record
from runlog.records.hosts import HostState, LoadHostRecord
from runlog.records.load import HostsTold, LoadEvent
from runlog.records.run import RunStatus

RUN = "harness-0123456789"
SEGMENT = "send-p0i0-000000.seg"


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    (tmp_path / "shared").mkdir()
    found = open_store((tmp_path / "shared").as_uri())
    assert isinstance(found, DirectoryStore)
    return found


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """With one ended cell."""
    found = tmp_path / "here"
    files = {
        "manifest.json": json.dumps(
            {"run_id": "here", "suite": "s", "status": "running", "mark": RUN, "cells": ["c1"]}
        ),
        "cells/c1/cell.json": json.dumps(
            {"cell_id": "c1", "outcome": {"load_hosts": [{"name": "left", "state": "done", "is_gathered": True}]}}
        ),
        "cells/c1/stats.jsonl": "{}\n",
        "cells/c1/attempt-1/stats.jsonl": "{}\n",
        "cells/c1/live/send-p0i0-000000.seg": "not compacted",
        "send/cell=c1/part-000000.parquet": "rows",
        "send/cell=c2/part-000000.parquet": "of another cell",
    }
    for name, content in files.items():
        (found / name).parent.mkdir(parents=True, exist_ok=True)
        (found / name).write_text(content)
    return found


def no() -> bool:
    return False


def put_share(store: DirectoryStore, host: str, content: bytes = b"rows", *, is_whole: bool = True) -> None:
    name = SEGMENT if host == "left" else SEGMENT.replace("p0", "p1")
    store.put_bytes(f"{host_prefix(RUN, 'c1', host)}/{name}", content)
    listed = StoredFile(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    store.put_bytes(index_name(RUN, "c1", host), StoredList(is_whole=is_whole, files={name: listed}).to_bytes())


# --- keeping --------------------------------------------------------------------------------------------------------


def test_an_ended_cell_is_kept_whole_and_its_segments_go(store: DirectoryStore, run_dir: Path) -> None:
    put_share(store, "left")
    keep_cell(store, RUN, run_dir, "c1", no)
    listed = read_list(store, kept_name(RUN, "c1"))
    assert listed is not None
    assert set(listed.files) == {
        "cells/c1/cell.json", "cells/c1/stats.jsonl", "cells/c1/attempt-1/stats.jsonl",
        "send/cell=c1/part-000000.parquet",
    }  # fmt: skip
    assert store.names(f"{RUN}/cells/c1/hosts") == []


def test_segments_of_a_host_that_was_not_gathered_stay_in_the_store(store: DirectoryStore, run_dir: Path) -> None:
    put_share(store, "left")
    put_share(store, "right")
    cell = run_dir / "cells/c1/cell.json"
    document = json.loads(cell.read_text())
    document["outcome"]["load_hosts"].append({"name": "right", "state": "dead", "is_gathered": False})
    cell.write_text(json.dumps(document))
    keep_cell(store, RUN, run_dir, "c1", no)
    assert read_list(store, kept_name(RUN, "c1")) is not None
    assert store.names(host_prefix(RUN, "c1", "left")) == []
    assert len(store.names(host_prefix(RUN, "c1", "right"))) == 2


@pytest.mark.parametrize("damage", [b"", b"rowS", b"rows and more"])
def test_what_cannot_be_read_back_takes_the_place_of_nothing(
    store: DirectoryStore, run_dir: Path, damage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_share(store, "left")
    put_file = store.put_file

    def put_damaged(name: str, path: Path) -> None:
        put_file(name, path)
        if name.endswith(".parquet"):
            store.put_bytes(name, damage)

    monkeypatch.setattr(store, "put_file", put_damaged)
    with pytest.raises(StoreError, match=r"part-000000.parquet: is not what was put there"):
        keep_cell(store, RUN, run_dir, "c1", no)
    assert read_list(store, kept_name(RUN, "c1")) is None
    assert len(store.names(host_prefix(RUN, "c1", "left"))) == 2


def test_a_cell_that_is_not_kept_as_a_whole_keeps_its_segments(store: DirectoryStore, run_dir: Path) -> None:
    put_share(store, "left")
    asked: list[None] = []

    def after_two() -> bool:
        asked.append(None)
        return len(asked) > 2

    with pytest.raises(StoreError, match="was stopped"):
        keep_cell(store, RUN, run_dir, "c1", after_two)
    assert read_list(store, kept_name(RUN, "c1")) is None
    assert len(store.names(f"{RUN}/cells/c1/hosts")) == 2


def test_a_store_that_takes_nothing_more_costs_the_copy_and_not_the_run(
    store: DirectoryStore, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    copy = RunCopy(store, RUN, run_dir, said.append)
    copy.begin(read_run_record(run_dir))

    def full(_name: str, _path: Path) -> None:
        raise StoreError("no space")

    monkeypatch.setattr(store, "put_file", full)
    copy.cell_written("c1")
    copy.keep("c1", no)
    copy.close()
    assert "c1: the store does not keep it: no space; it is in the run directory" in said
    assert said.count("the store does not take the plan of the run: no space") == 1, "said once"


def test_what_is_put_in_the_background_never_waits_for_the_store(
    store: DirectoryStore, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = RunCopy(store, RUN, run_dir, print)
    copy.begin(read_run_record(run_dir))
    may_go, put_file = threading.Event(), store.put_file

    def slowly(name: str, path: Path) -> None:
        may_go.wait(60)
        put_file(name, path)

    monkeypatch.setattr(store, "put_file", slowly)
    for _ in range(1_000):
        copy.cell_written("c1")
    assert len(copy._due) <= 2, "only the newest of each"
    may_go.set()
    copy.close()
    assert f"{RUN}/cells/c1/cell.json" in store.names(RUN)


def test_a_store_that_does_not_take_the_plan_ends_the_run_before_it_begins(
    store: DirectoryStore, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_name: str, _path: Path) -> None:
        raise StoreError("access denied")

    monkeypatch.setattr(store, "put_file", refused)
    with pytest.raises(EnvironmentFault, match="does not take the plan of the run: access denied"):
        RunCopy(store, RUN, run_dir, print).begin(read_run_record(run_dir))
    assert not (run_dir / "store.json").exists()


# --- fetching -------------------------------------------------------------------------------------------------------


def test_a_share_is_fetched_and_verified(store: DirectoryStore, run_dir: Path) -> None:
    put_share(store, "left", b"new rows")
    found = fetch_host(store, RUN, run_dir, "c1", "left")
    assert (found.files, found.bytes, found.is_whole, found.problem) == (1, 8, True, "")
    assert (run_dir / "cells/c1/live" / SEGMENT).read_bytes() == b"new rows"
    assert "no list" in fetch_host(store, RUN, run_dir, "c1", "right").problem


@pytest.mark.parametrize("name", ["cell.json", "a/send-p0i0-000000.seg", ".bashrc", "send-p0i0-000000.seg.part"])
def test_a_list_cannot_put_other_files_among_the_segments(store: DirectoryStore, run_dir: Path, name: str) -> None:
    store.put_bytes(f"{host_prefix(RUN, 'c1', 'left')}/{name}", b"x")
    listed = StoredFile(bytes=1, sha256=hashlib.sha256(b"x").hexdigest())
    store.put_bytes(index_name(RUN, "c1", "left"), StoredList(is_whole=True, files={name: listed}).to_bytes())
    assert "is no file of a run log" in fetch_host(store, RUN, run_dir, "c1", "left").problem
    assert {path.name for path in (run_dir / "cells/c1/live").iterdir()} == {SEGMENT}


class FakeHub:
    """Answers as a hub with two load hosts, of which both have put their run log into the store."""

    def __init__(self, by_link: Mapping[str, bool]) -> None:
        self.by_link = by_link
        self.said: list[Mapping[str, Any]] = []
        self._events: list[LoadEvent] = []

    def say(self, document: Mapping[str, Any]) -> None:
        self.said.append(document)
        if document["do"] == "stop":
            self._events.append(HostsTold(hosts=tuple(self.host(name) for name in ("left", "right"))))
        elif document["do"] == "gather":
            self._events.append(
                HostsTold(
                    hosts=tuple(
                        LoadHostRecord(
                            name=name, state=HostState.FAILED, reason="late", files=1, bytes=4,
                            is_gathered=self.by_link[name],
                        )
                        for name in document["hosts"]
                    )
                )
            )  # fmt: skip

    def host(self, name: str) -> LoadHostRecord:
        return LoadHostRecord(name=name, state=HostState.DONE, files=0, files_stored=1, bytes=0, is_gathered=True)

    def next_event(self, _timeout_s: float) -> LoadEvent | None:
        return self._events.pop(0) if self._events else None

    def is_running(self) -> bool:
        return True


def stopped_load(store: DirectoryStore, run_dir: Path, hub: FakeHub) -> dict[str, LoadHostRecord]:
    load = HubLoad(hub, RunCopy(store, RUN, run_dir, print))  # type: ignore[arg-type]
    load.begin({"run_dir": run_dir, "cell_id": "c1"})
    load.stop(1.0)
    load.forget()
    return {host.name: host for host in load.hosts}


def test_what_is_in_the_store_is_fetched_when_the_load_has_ended(store: DirectoryStore, run_dir: Path) -> None:
    put_share(store, "left")
    put_share(store, "right")
    hub = FakeHub({})
    hosts = stopped_load(store, run_dir, hub)
    assert all(host.is_gathered and (host.files, host.bytes) == (1, 4) for host in hosts.values())
    assert [said["do"] for said in hub.said] == ["cell", "stop", "forget"]
    assert hub.said[-1]["but"] == []


@pytest.mark.parametrize("damage", ["changed", "cut", "gone", "list gone"])
def test_what_the_store_does_not_give_back_comes_over_the_link(
    store: DirectoryStore, run_dir: Path, damage: str
) -> None:
    put_share(store, "left")
    put_share(store, "right")
    name = f"{host_prefix(RUN, 'c1', 'right')}/{SEGMENT.replace('p0', 'p1')}"
    if damage == "gone":
        store.remove(name)
    elif damage == "list gone":
        store.remove(index_name(RUN, "c1", "right"))
    else:
        store.put_bytes(name, {"changed": b"ROWS", "cut": b"row"}[damage])
    hub = FakeHub({"right": True})
    hosts = stopped_load(store, run_dir, hub)
    assert [said.get("hosts") for said in hub.said if said["do"] == "gather"] == [["right"]]
    assert all(host.is_gathered and host.state is HostState.DONE for host in hosts.values())
    assert (hosts["right"].files, hosts["right"].files_stored) == (1, 0)


def test_what_comes_by_neither_way_is_told_and_not_forgotten_at_the_host(store: DirectoryStore, run_dir: Path) -> None:
    put_share(store, "left")
    hub = FakeHub({"right": False})
    hosts = stopped_load(store, run_dir, hub)
    assert hosts["left"].is_gathered
    assert not hosts["right"].is_gathered
    assert hosts["right"].state is HostState.FAILED
    assert "could not be fetched" in hosts["right"].reason
    assert hub.said[-1] == {"do": "forget", "but": ["right"]}


# --- making anew ----------------------------------------------------------------------------------------------------


def kept(store: DirectoryStore, run_dir: Path) -> None:
    copy = RunCopy(store, RUN, run_dir, print)
    copy.begin(read_run_record(run_dir))
    copy.keep("c1", no)
    copy.close()


def test_a_run_directory_comes_back_as_it_was(store: DirectoryStore, run_dir: Path, tmp_path: Path) -> None:
    kept(store, run_dir)
    assert find_run(store, "here") == RUN
    assert find_run(store, RUN) == RUN
    said: list[str] = []
    rebuild(store, RUN, tmp_path / "new", said.append)
    assert read_run_record(tmp_path / "new").status is RunStatus.RUNNING
    for name in ("cells/c1/cell.json", "cells/c1/attempt-1/stats.jsonl", "send/cell=c1/part-000000.parquet"):
        assert (tmp_path / "new" / name).read_bytes() == (run_dir / name).read_bytes()
    assert "c1: 4 files" in said[0]
    rebuild(store, RUN, tmp_path / "new", said.append)
    assert len(said) == 1, "nothing is brought twice"


def test_what_broke_off_goes_on_and_is_no_run_directory_until_all_is_there(
    store: DirectoryStore, run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(store, run_dir)
    read, reads = store.read, []

    def breaks_off(name: str, offset: int, length: int) -> bytes:
        reads.append(name)
        if name.endswith(".parquet"):
            raise StoreError("gone")
        return read(name, offset, length)

    monkeypatch.setattr(store, "read", breaks_off)
    with pytest.raises(EnvironmentFault, match="gone"):
        rebuild(store, RUN, tmp_path / "new", print)
    assert not (tmp_path / "new" / "manifest.json").exists()
    monkeypatch.undo()
    rebuild(store, RUN, tmp_path / "new", print)
    assert (tmp_path / "new" / "send/cell=c1/part-000000.parquet").read_text() == "rows"


@pytest.mark.parametrize("name", ["manifest.json", "cells/c2/cell.json", "send/cell=c2/part-000000.parquet", "x"])
def test_a_kept_list_cannot_write_outside_of_its_cell(
    store: DirectoryStore, run_dir: Path, tmp_path: Path, name: str
) -> None:
    kept(store, run_dir)
    store.put_bytes(f"{RUN}/{name}", b"x")
    listed = StoredFile(bytes=1, sha256=hashlib.sha256(b"x").hexdigest())
    store.put_bytes(kept_name(RUN, "c1"), StoredList(is_whole=True, files={name: listed}).to_bytes())
    if name == "manifest.json":
        store.put_file(f"{RUN}/manifest.json", run_dir / "manifest.json")
    with pytest.raises(EnvironmentFault, match="is no file of cell c1"):
        rebuild(store, RUN, tmp_path / "new", print)


def test_two_runs_of_one_name_are_told_apart_by_their_marks(store: DirectoryStore) -> None:
    marks: Sequence[str] = ("harness-0000000001", "harness-0000000002")
    for mark in marks:
        store.put_bytes(f"{mark}/store.json", json.dumps({"run_id": "same"}).encode())
    with pytest.raises(UsageError, match="2 runs called same: harness-0000000001, harness-0000000002"):
        find_run(store, "same")
    assert find_run(store, marks[1]) == marks[1]


def test_keeping_has_a_limit_of_time(store: DirectoryStore, run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_copy, "KEEP_MAX_S", -1.0)
    with pytest.raises(StoreError, match="took longer"):
        keep_cell(store, RUN, run_dir, "c1", no)
