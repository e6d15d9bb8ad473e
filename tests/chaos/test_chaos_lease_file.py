"""Whatever lies in the directory of the leases: it blocks no start, and nothing is done by it."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.lease_file import FILE_BYTES_MAX, LeaseProblem, parse_lease, read_lease, read_own_file
from chaos.reap import left_alone, reap, settle
from runlog.files.documents import write_json
from runlog.files.place import Place, here
from tests.amount import examples

SCALARS = (
    st.none() | st.booleans() | st.floats() | st.text(max_size=20) | st.integers()
    | st.sampled_from([-1, 0, 1, 2**31, 2**63, "..", "/", "\0", "\ud800", "process", "stopped", "http://127.0.0.1:1"])
)  # fmt: skip
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4))
NAMES = ("kind", "label", "token", "pid", "start_ticks", "url", "proxy", "toxic", "path", "inode", "topic", "topic_id")
ENTRY = st.dictionaries(st.sampled_from(NAMES), SCALARS, max_size=8)
# No url, so that no example calls anybody.
QUIET = ENTRY.map(lambda entry: {key: value for key, value in entry.items() if key != "url"})
OWNER = st.fixed_dictionaries({"pid": SCALARS, "start_ticks": SCALARS})
LEASE = st.fixed_dictionaries(
    {"owner": OWNER | JSON, "entries": st.lists(QUIET | JSON, max_size=4) | JSON},
    optional={"format": st.sampled_from([1, 2, 3, True, "2"]), "place": st.just(here().as_json()) | JSON},
)


@settings(max_examples=examples(100))
@given(content=st.binary(max_size=60) | (JSON | LEASE).map(lambda document: json.dumps(document).encode()))
@pytest.mark.thorough
def test_no_content_of_a_lease_blocks_a_start(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        path = root / "a.json"
        path.write_bytes(content)
        path.chmod(0o600)
        reap(root)
        left_alone(root)
        settle(root, lambda entry: "")


@given(content=st.binary(max_size=80) | (JSON | LEASE).map(lambda document: json.dumps(document).encode()))
def test_other_bytes_are_a_lease_problem_and_nothing_else(content: bytes) -> None:
    with contextlib.suppress(LeaseProblem):
        assert all(entry.pid is None or entry.pid > 1 for entry in parse_lease(content).entries)


@given(owner=st.integers(1, 1 << 22), entries=st.lists(QUIET, max_size=3))
@pytest.mark.thorough
def test_a_lease_of_ours_with_broken_entries_is_read_whole_or_refused(owner: int, entries: list[object]) -> None:
    document = {"format": 2, "owner": {"pid": owner, "start_ticks": 5}, "place": here().as_json(), "entries": entries}
    try:
        assert len(parse_lease(json.dumps(document).encode()).entries) == len(entries)
    except LeaseProblem:
        assert entries


def test_what_is_no_plain_file_of_ours_is_set_aside(tmp_path: Path) -> None:
    secret = tmp_path / "elsewhere"
    secret.write_text("{}")
    root = tmp_path / "leases"
    root.mkdir(mode=0o700)
    (root / "a-link.json").symlink_to(secret)
    (root / "b-dangling.json").symlink_to(tmp_path / "nowhere")
    (root / "c-directory.json").mkdir()
    os.mkfifo(root / "d-pipe.json")
    (root / "e-open.json").write_text("{}")
    (root / "e-open.json").chmod(0o666)
    (root / "f-deep.json").write_text("[" * 100_000)
    with (root / "g-large.json").open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    (root / "h-half.json").write_text("{")
    lines = reap(root)
    assert [line.split(": ", 1)[1][:30] for line in lines[:5]] == [
        "it is a symbolic link", "it is a symbolic link", "it is no plain file", "it is no plain file",
        "others may write it: mode 0666",
    ]  # fmt: skip
    assert len(lines) == 8
    assert {path.suffix for path in root.iterdir()} == {".broken"}
    assert secret.read_text() == "{}"
    assert reap(root) == []


def test_a_file_is_written_for_its_owner_alone_and_over_no_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    (tmp_path / "a.json").symlink_to(victim)
    write_json(tmp_path / "a.json", {"format": 2})
    assert victim.read_text() == "theirs"
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o600
    assert json.loads(read_own_file(tmp_path / "a.json")) == {"format": 2}
    with pytest.raises(FileNotFoundError):
        read_lease(tmp_path / "b.json")


PLACE = Place(host="h", machine="m", boot_id="b", pid_namespace="p")


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({}, "here"),
        ({"pid_namespace": "q"}, "elsewhere"),
        ({"boot_id": "c"}, "before a restart"),
        ({"boot_id": "c", "pid_namespace": "q"}, "before a restart"),
        ({"boot_id": "c", "machine": ""}, "elsewhere"),
        ({"boot_id": "c", "host": "i"}, "elsewhere"),
        ({"host": "i"}, "elsewhere"),
        ({"boot_id": ""}, "elsewhere"),
        ({"pid_namespace": ""}, "elsewhere"),
    ],
)
def test_where_a_place_is(changed: dict[str, str], where: str) -> None:
    assert Place(**{**PLACE.as_json(), **changed}).seen_from(PLACE) == where
    assert Place.from_json(PLACE.as_json()) == PLACE
