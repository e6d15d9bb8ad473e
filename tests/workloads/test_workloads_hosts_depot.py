"""Run logs of a load host on their way into a store: whole, resumed, of the right run, and never in the way."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runlog.files.store import DirectoryStore, StoreError, open_store
from runlog.files.stored import (
    StoredList,
    host_prefix,
    index_name,
    kept_name,
    measured,
    read_list,
    token_name,
)
from tests.patience import wait_until
from tests.workloads.load_hosts import WAIT_S
from workloads.hosts import depot_process, wire
from workloads.hosts.depot import DUE, CellDepot, DepotConfig, Due, _Depot, marked, note_due
from workloads.hosts.depot_process import DepotProcess
from workloads.hosts.gather import Gatherer
from workloads.hosts.spool import Spool

RUN, CELL = "harness-0123456789", wire.OfCell(run_id="harness-0123456789", cell_id="c1")
TOKEN = "ab" * 16
OPEN, CLOSED, RING = "send-p0i0-000001.seg", "send-p0i0-000000.seg", "producer-0-0.inflight"


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    (tmp_path / "shared").mkdir()
    found = open_store((tmp_path / "shared").as_uri())
    assert isinstance(found, DirectoryStore)
    found.put_bytes(token_name(RUN), json.dumps({"token": TOKEN}).encode())
    return found


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    found = Spool(tmp_path / "spool")
    found.prepare(CELL)
    live = found.live(CELL)
    for name, content in ((CLOSED, b"full"), (OPEN, b"begun"), (RING, b"ring")):
        (live / name).write_bytes(content)
    (live / "secret.key").write_bytes(b"of the user")
    return found


def depot_of(store: DirectoryStore, spool: Spool, token: str = TOKEN) -> CellDepot:
    return CellDepot(store, spool, "left", Due(run_id=RUN, cell_id="c1", token=token))


def listed(store: DirectoryStore) -> StoredList | None:
    return read_list(store, index_name(RUN, "c1", "left"))


def test_while_the_share_runs_only_closed_files_are_put_and_afterwards_all(store: DirectoryStore, spool: Spool) -> None:
    depot = depot_of(store, spool)
    depot.begin(is_new=True)
    assert depot.step(is_running=True)
    assert depot.stored == [CLOSED]
    found = listed(store)
    assert found is not None
    assert (set(found.files), found.is_whole) == ({CLOSED}, False)
    assert not depot.step(is_running=True), "nothing new"
    (spool.live(CELL) / OPEN).write_bytes(b"begun and ended")
    assert depot.step(is_running=False)
    found = listed(store)
    assert found is not None
    assert found.is_whole
    assert found.files == {name: measured(spool.live(CELL) / name) for name in (CLOSED, OPEN, RING)}
    assert store.names(host_prefix(RUN, "c1", "left")) == sorted(
        f"{host_prefix(RUN, 'c1', 'left')}/{name}" for name in (CLOSED, OPEN, RING, "index.json")
    )
    assert not depot.step(is_running=False)


def test_a_store_that_is_not_that_of_the_master_gets_nothing(store: DirectoryStore, spool: Spool) -> None:
    for wrong in ("cd" * 16,):
        with pytest.raises(StoreError, match="is not the store of this run's master"):
            depot_of(store, spool, wrong).begin(is_new=True)
    store.remove(token_name(RUN))
    with pytest.raises(StoreError, match="is not the store of this run's master"):
        depot_of(store, spool).begin(is_new=True)
    assert store.names("") == []


def test_what_an_earlier_process_has_put_is_not_put_again(
    store: DirectoryStore, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = depot_of(store, spool)
    first.begin(is_new=True)
    first.step(is_running=True)
    put, put_file = [], store.put_file

    def counted(name: str, path: Path) -> None:
        put.append(path.name)
        put_file(name, path)

    monkeypatch.setattr(store, "put_file", counted)
    again = depot_of(store, spool)
    again.begin(is_new=False)
    again.step(is_running=False)
    assert sorted(put) == sorted([OPEN, RING])
    assert again.is_whole


def test_what_an_earlier_attempt_at_the_cell_has_put_counts_no_more(store: DirectoryStore, spool: Spool) -> None:
    first = depot_of(store, spool)
    first.begin(is_new=True)
    first.step(is_running=False)
    assert first.is_whole
    again = depot_of(store, spool)
    again.begin(is_new=True)
    assert listed(store) is None
    assert not again.is_whole
    assert again.stored == []


# --- the process ----------------------------------------------------------------------------------------------------


class Running:
    """A depot process and what it said."""

    def __init__(self, url: str, spool: Spool, root: Path) -> None:
        self.said: list[str] = []
        self.spool = spool
        self.depot = DepotProcess(url, root, "left", spool, self.said.append)

    def files(self, *, is_running: bool) -> wire.FilesOfCell:
        return self.depot.mark(self.spool.files(CELL, is_running=is_running))

    def wait_stored(self, names: set[str]) -> None:
        def are_stored() -> bool:
            found = self.files(is_running=True).files
            return {each.name for each in found if each.is_stored} == names

        wait_until(are_stored, f"{names} in the store; said {self.said}", WAIT_S)


@pytest.fixture
def start(store: DirectoryStore, spool: Spool, tmp_path: Path) -> Iterator[Callable[[str], Running]]:
    started: list[Running] = []

    def begin(url: str) -> Running:
        started.append(Running(url, spool, tmp_path / "spool"))
        return started[-1]

    yield begin
    for each in started:
        each.depot.close()


@pytest.mark.slow
def test_the_agent_sees_which_files_are_in_the_store_and_waits_for_none(
    store: DirectoryStore, spool: Spool, start: Callable[[str], Running]
) -> None:
    running = start(store.url)
    running.depot.begin(CELL, TOKEN)
    assert running.files(is_running=True).is_storing
    running.wait_stored({CLOSED})
    running.depot.share_ended()
    wait_until(lambda: not running.files(is_running=False).is_storing, "all is in the store", WAIT_S)
    assert all(each.is_stored for each in running.files(is_running=False).files)
    found = listed(store)
    assert found is not None
    assert found.is_whole


@pytest.mark.slow
def test_without_a_store_and_with_another_one_the_run_log_goes_over_the_link(
    store: DirectoryStore, spool: Spool, start: Callable[[str], Running], tmp_path: Path
) -> None:
    none = start("")
    none.depot.begin(CELL, TOKEN)
    assert not none.files(is_running=True).is_storing
    assert "there is no store here" in none.said[0]
    (tmp_path / "other").mkdir()
    other = start((tmp_path / "other").as_uri())
    other.depot.begin(CELL, TOKEN)
    wait_until(lambda: not other.files(is_running=True).is_storing, "it has given up", WAIT_S)
    assert "is not the store of this run's master" in other.said[0]
    assert list((tmp_path / "other").iterdir()) == []


@pytest.mark.slow
def test_a_run_that_has_no_store_puts_nothing(
    store: DirectoryStore, spool: Spool, start: Callable[[str], Running]
) -> None:
    running = start(store.url)
    running.depot.begin(CELL, "")
    assert not running.files(is_running=False).is_storing
    assert not (spool.live(CELL).parent / DUE).exists()


@pytest.mark.long
@pytest.mark.slow
def test_a_depot_that_is_killed_gives_way_to_the_link_and_the_next_one_stores_what_is_due(
    store: DirectoryStore, spool: Spool, start: Callable[[str], Running]
) -> None:
    running = start(store.url)
    running.depot.begin(CELL, TOKEN)
    running.wait_stored({CLOSED})
    process = running.depot._process
    assert process is not None
    process.kill()
    wait_until(lambda: not running.files(is_running=True).is_storing, "it has given up", WAIT_S)
    assert [each.name for each in running.files(is_running=True).files if each.is_stored] == [CLOSED]
    start(store.url)
    wait_until(
        lambda: (found := listed(store)) is not None and found.is_whole, "the next worker has stored the rest", WAIT_S
    )


@pytest.mark.slow
def test_a_share_that_runs_is_never_taken_for_finished_after_the_store_failed(
    store: DirectoryStore, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The spool was looked at for leftovers in the middle of the cell, and open segments were put as whole ones."""
    told: list[dict[str, object]] = []
    config = DepotConfig(url=store.url, spool=spool.live(CELL).parents[3], host="left")
    depot = _Depot(config, store, told.append)
    due = note_due(spool, CELL, TOKEN)
    depot._carry_out({"do": "begin", "due": due.model_dump()})
    put_file = store.put_file

    def full(_name: str, _path: Path) -> None:
        raise StoreError("no space")

    monkeypatch.setattr(store, "put_file", full)
    depot._step()
    assert told[-1]["problem"] == "no space"
    monkeypatch.setattr(store, "put_file", put_file)
    depot._next_spool_s = 0.0
    assert not depot._may_look_at_spool()
    depot._carry_out({"do": "end"})
    assert depot._may_look_at_spool()
    depot._look_at_spool()
    found = listed(store)
    assert found is not None
    assert found.is_whole, "afterwards it is stored after all"


@pytest.mark.long
@pytest.mark.slow
def test_a_cell_that_the_store_keeps_whole_is_removed_from_the_spool(
    store: DirectoryStore, spool: Spool, start: Callable[[str], Running], tmp_path: Path
) -> None:
    note_due(spool, CELL, TOKEN)
    keep(store, tmp_path, is_gathered=True)
    start(store.url)
    wait_until(lambda: not list((tmp_path / "spool").iterdir()), "the spool is empty", WAIT_S)


def keep(store: DirectoryStore, directory: Path, *, is_gathered: bool) -> str:
    """As the harness does when the cell has ended. Returns the name of a part."""
    host = {"name": "left", "state": "done", "is_gathered": is_gathered}
    part = "send/cell=c1/part-000000.parquet"
    files = {}
    for name, text in (
        ("cells/c1/cell.json", json.dumps({"cell_id": "c1", "outcome": {"load_hosts": [host]}})),
        (part, "rows"),
    ):
        path = directory / "put"
        path.write_text(text)
        store.put_file(f"{RUN}/{name}", path)
        files[name] = measured(path)
    store.put_bytes(kept_name(RUN, "c1"), StoredList(is_whole=True, files=files).to_bytes())
    return f"{RUN}/{part}"


def look_at_spool(store: DirectoryStore, spool: Spool, tmp_path: Path) -> list[str]:
    """What a depot says that begins now."""
    note_due(spool, CELL, TOKEN)
    config = DepotConfig(url=store.url, spool=tmp_path / "spool", host="left")
    told: list[str] = []
    _Depot(config, store, lambda said: told.append(str(said)))._look_at_spool()
    return told


def test_what_the_store_keeps_with_this_hosts_run_log_is_removed_here(
    store: DirectoryStore, spool: Spool, tmp_path: Path
) -> None:
    keep(store, tmp_path, is_gathered=True)
    (told,) = look_at_spool(store, spool, tmp_path)
    assert "so it was removed here" in told
    assert not spool.live(CELL).exists()


def test_a_run_log_that_the_harness_did_not_gather_is_not_removed_because_the_cell_is_kept(
    store: DirectoryStore, spool: Spool, tmp_path: Path
) -> None:
    keep(store, tmp_path, is_gathered=False)
    (told,) = look_at_spool(store, spool, tmp_path)
    assert "3 files are in the store now" in told, "there it is of use"
    assert look_at_spool(store, spool, tmp_path) == []
    assert {path.name for path in spool.live(CELL).iterdir()} >= {CLOSED, OPEN, RING}


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_what_the_store_has_lost_since_is_not_removed_here(
    store: DirectoryStore, spool: Spool, tmp_path: Path, damage: str
) -> None:
    part = keep(store, tmp_path, is_gathered=True)
    if damage == "gone":
        store.remove(part)
    else:
        store.put_bytes(part, b"rowS")
    (told,) = look_at_spool(store, spool, tmp_path)
    assert "part-000000.parquet" in told
    assert {path.name for path in spool.live(CELL).iterdir()} >= {CLOSED, OPEN, RING}


@pytest.mark.slow
def test_a_store_that_takes_nothing_for_long_gives_way_to_the_link(
    store: DirectoryStore, spool: Spool, start: Callable[[str], Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start(store.url)
    process = running.depot._process
    assert process is not None
    running.depot.begin(CELL, TOKEN)
    running.wait_stored({CLOSED})
    process.send_signal(19)  # SIGSTOP: it hangs in a put
    running.depot.share_ended()
    assert running.files(is_running=False).is_storing
    monkeypatch.setattr(depot_process, "STALL_S", 0.0)
    assert not running.files(is_running=False).is_storing
    assert "took nothing" in running.said[0]
    process.send_signal(18)


# --- the gatherer ---------------------------------------------------------------------------------------------------


def test_a_gatherer_asks_for_nothing_that_is_or_will_be_in_the_store(spool: Spool, tmp_path: Path) -> None:
    asked: list[wire.Message] = []
    gatherer = Gatherer(CELL, tmp_path / "here", asked.append, uses_store=True)
    files = spool.files(CELL, is_running=False)
    gatherer.on_files(marked(files, frozenset({CLOSED}), is_storing=True))
    assert not gatherer.is_whole()
    gatherer.on_files(marked(files, frozenset({CLOSED, OPEN, RING}), is_storing=False))
    assert gatherer.is_whole()
    assert (gatherer.files, gatherer.stored_only) == (0, 3)
    assert asked == []


def test_a_gatherer_brings_what_the_store_did_not_take(spool: Spool, tmp_path: Path) -> None:
    asked: list[wire.AskChunk] = []

    def ask(message: wire.Message) -> None:
        if isinstance(message, wire.AskChunk):
            asked.append(message)

    gatherer = Gatherer(CELL, tmp_path / "here", ask, uses_store=True)
    gatherer.on_files(marked(spool.files(CELL, is_running=False), frozenset({CLOSED}), is_storing=False))
    while asked:
        gatherer.on_chunk(spool.chunk(asked.pop()))
    assert gatherer.is_whole()
    assert (gatherer.files, gatherer.stored_only) == (2, 1)
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == [RING, OPEN]


def test_a_gatherer_of_a_run_without_a_store_brings_everything(spool: Spool, tmp_path: Path) -> None:
    asked: list[wire.Message] = []
    gatherer = Gatherer(CELL, tmp_path / "here", asked.append)
    gatherer.on_files(marked(spool.files(CELL, is_running=False), frozenset({CLOSED, OPEN, RING}), is_storing=True))
    assert any(isinstance(each, wire.AskChunk) for each in asked)
    assert not gatherer.is_whole()
