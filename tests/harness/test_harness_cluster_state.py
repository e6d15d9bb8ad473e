"""The state of a cluster that outlives its command: what a planted or foreign file can make `down` and `clean` do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.lease import TOKEN_VARIABLE, is_alive, read_identity
from chaos.process_identity import read_token
from harness.cli.clusters import cluster
from harness.cli.clusters.cluster_state import (
    MARK_FILE,
    StateProblem,
    alone,
    data_directory,
    read_state,
    remove_abandoned_data,
    state_directory,
    write_state,
)
from harness.errors import EnvironmentFault, UsageError
from runlog.files.place import here

TOKEN = "0123456789abcdef" * 2
FACTS: dict[str, Any] = {"bootstrap_servers": "127.0.0.1:1"}


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def broker() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], env=os.environ | {TOKEN_VARIABLE: TOKEN}
    )
    deadline = time.monotonic() + 30
    while read_token(child.pid) is None:  # /proc has the environment a moment after the program runs
        assert time.monotonic() < deadline
        time.sleep(0.001)
    yield child
    child.kill()
    child.wait()


def up(pid: int, name: str = "default") -> Path:
    """What `up` writes; returns the data directory."""
    path = state_directory() / f"{name}.json"
    directory, mark = data_directory(name, path)
    write_state(path, mark=mark, directory=directory, pids={1: pid}, facts=FACTS)
    return directory


def change(**changed: object) -> Path:
    path = state_directory() / "default.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    return path


@pytest.mark.slow
def test_down_ends_what_up_has_started_and_removes_its_data(broker: subprocess.Popen[bytes]) -> None:
    directory = up(broker.pid)
    path = state_directory() / "default.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert (path.parent.stat().st_mode & 0o777, directory.stat().st_mode & 0o777) == (0o700, 0o700)
    cluster.down("default")
    assert broker.wait(5) == -15
    assert not directory.exists()
    assert not path.exists()


@pytest.mark.slow
def test_two_commands_at_once_do_not_work_on_one_cluster(broker: subprocess.Popen[bytes]) -> None:
    """Each would start a cluster, and the state file name the later one alone; or `down` forget what `up` writes."""
    directory = up(broker.pid)
    with alone(state_directory() / "default.json"):
        for command in (lambda: cluster.up(cluster="reference", brokers=1, settings=(), name="default"),
                        lambda: cluster.down("default")):  # fmt: skip
            with pytest.raises(UsageError, match="'default' is being started or ended by another process"):
                command()
    assert broker.poll() is None
    assert directory.exists()
    cluster.down("default")
    assert not directory.exists()


@pytest.mark.slow
@pytest.mark.parametrize("changed", [{"token": "f" * 32}, {"token": None}, {"start_ticks": 2}])
def test_down_ends_no_process_that_up_has_not_started(
    broker: subprocess.Popen[bytes], changed: dict[str, object]
) -> None:
    up(broker.pid)
    entry = json.loads((state_directory() / "default.json").read_text())["brokers"]["1"]
    change(brokers={"1": entry | changed})
    identity = read_identity(broker.pid)
    cluster.down("default")
    assert identity is not None
    assert is_alive(identity)


@pytest.mark.slow
def test_no_directory_is_removed_that_up_has_not_made(broker: subprocess.Popen[bytes], tmp_path: Path) -> None:
    up(broker.pid)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("theirs")
    other = up(broker.pid, "other")
    for directory in (precious, other):
        change(directory=str(directory))
        with pytest.raises(UsageError, match="is up already"):
            cluster._refuse_or_forget(state_directory() / "default.json", "default")
        change(directory=str(directory), brokers={})
        cluster._refuse_or_forget(state_directory() / "default.json", "default")
        assert directory.is_dir()
        assert not (state_directory() / "default.json").exists()
        up(broker.pid)
    assert (precious / "file").read_text() == "theirs"


@pytest.mark.slow
def test_a_cluster_of_another_place_is_left_alone(broker: subprocess.Popen[bytes]) -> None:
    directory = up(broker.pid)
    path = change(place=here().as_json() | {"pid_namespace": "pid:[1]"})
    for act in (cluster.down, cluster.status):
        with pytest.raises(EnvironmentFault, match="cannot be seen from here"):
            act("default")
    with pytest.raises(UsageError, match="take another --name"):
        cluster._refuse_or_forget(path, "default")
    assert broker.poll() is None
    assert directory.is_dir()
    assert path.is_file()


def test_a_torn_state_file_blocks_no_start_and_down_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    state_directory().mkdir(parents=True, mode=0o700)
    path = state_directory() / "default.json"
    path.write_text("{")
    with pytest.raises(EnvironmentFault, match=r"default\.json is no state file of ours"):
        cluster.down("default")
    cluster._refuse_or_forget(path, "default")
    assert "put aside" in capsys.readouterr().err
    assert not path.exists()


@pytest.mark.slow
def test_clean_removes_data_of_an_up_that_is_gone_and_no_other(tmp_path: Path, broker: subprocess.Popen[bytes]) -> None:
    alive, _ = data_directory("starting", state_directory() / "starting.json")
    is_up = up(broker.pid)
    gone, _ = data_directory("gone", state_directory() / "gone.json")
    elsewhere, _ = data_directory("elsewhere", state_directory() / "elsewhere.json")
    older = tmp_path / "cache" / "clusters" / "older-4000000"
    older.mkdir()
    for directory, changed in (
        (is_up, {"owner": {"pid": 4_000_000, "start_ticks": 5}}),
        (gone, {"owner": {"pid": 4_000_000, "start_ticks": 5}}),
        (
            elsewhere,
            {"owner": {"pid": 4_000_000, "start_ticks": 5}, "place": here().as_json() | {"boot_id": "x", "host": "y"}},
        ),
    ):
        mark = directory / MARK_FILE
        mark.write_text(json.dumps(json.loads(mark.read_text()) | changed))
    assert remove_abandoned_data() == [f"removed data of a cluster that is gone: {gone}"]
    assert all(directory.is_dir() for directory in (alive, is_up, elsewhere, older))


@given(
    content=st.binary(max_size=40)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["brokers", "pid", "place", "mark", "1"]), inner)
        ),
    ).map(lambda document: json.dumps(document).encode())
)
@pytest.mark.thorough
def test_any_other_content_is_a_state_problem(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(content)
    with pytest.raises(StateProblem):
        read_state(path)
