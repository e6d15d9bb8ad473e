"""What of a stranger's run directory is not read, and that its words become harmless."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlog.files import strangers
from runlog.files.strangers import clean_document, clean_text, is_cell_name, strange_entry


def test_a_tree_of_regular_files_is_read(tmp_path: Path) -> None:
    (tmp_path / "cells" / "a").mkdir(parents=True)
    (tmp_path / "cells" / "a" / "cell.json").write_text("{}")
    assert strange_entry(tmp_path) == ""


@pytest.mark.parametrize("place", ["manifest.json", "results", "cells/a/cell.json", "send/cell=a/x.parquet"])
def test_a_link_is_named_and_refused_wherever_it_is(tmp_path: Path, place: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = tmp_path / "run" / place
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    assert strange_entry(tmp_path / "run").startswith(f"{place} is a symbolic link")


def test_a_fifo_a_socket_and_a_name_that_is_no_text_are_told_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert strange_entry(tmp_path).startswith("pipe is a FIFO")
    (tmp_path / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fsencode(tmp_path) + b"/s\xff\x1b[2J")
        told = strange_entry(tmp_path)
    assert "is a socket" in told
    told.encode("utf-8")
    assert "\x1b" not in told


def test_sizes_depth_and_number_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "manifest.json").open("wb") as file:
        file.truncate(65 << 20)
    assert "expected at most 67,108,864" in strange_entry(tmp_path)
    (tmp_path / "manifest.json").unlink()
    tmp_path.joinpath(*["d"] * 40).mkdir(parents=True)
    assert "nested deeper than 32" in strange_entry(tmp_path)
    monkeypatch.setattr(strangers, "ENTRIES_MAX", 10)
    assert "more than 10 files" in strange_entry(tmp_path)


@pytest.mark.parametrize("name", ["sweep-baseline", "chaos-leader-loss-acks-1-r2", "a.b_c", "c"])
def test_names_that_the_harness_makes_are_cells(name: str) -> None:
    assert is_cell_name(name)


@pytest.mark.parametrize("name", ["", ".x", "a b", "a\n", "x" * 300, "=1+1", "-x", "a\x1b", "<script>", "a\u202eb"])
def test_other_names_are_not(name: str) -> None:
    assert not is_cell_name(name)


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=40))
def test_any_text_becomes_utf8_and_xml(text: str) -> None:
    cleaned = clean_text(text)
    cleaned.encode("utf-8")
    element = ElementTree.Element("a", b=cleaned)
    element.text = cleaned
    ElementTree.fromstring(ElementTree.tostring(element, encoding="utf-8"))
    assert clean_text(cleaned) == cleaned


def test_a_document_is_cleaned_in_keys_and_values_and_cut_where_it_is_too_deep() -> None:
    deep: object = "x"
    for _ in range(500):
        deep = [deep]
    cleaned = clean_document({"a\x00": ["\ud800", 1, None], "deep": deep})
    assert cleaned["a\ufffd"] == ["\ufffd", 1, None]
