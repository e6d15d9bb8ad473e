"""docs/reference/run-directory.md says what the records say."""

from __future__ import annotations

from pathlib import Path

import pytest

from runlog.records.page import render

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "run-directory.md"


@pytest.mark.thorough
def test_the_page_of_the_run_directory_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), (
        "python -m runlog.records.page > docs/reference/run-directory.md"
    )


@pytest.mark.thorough
def test_the_page_has_every_file_and_the_words_behind_a_field() -> None:
    page = render()
    for file in (
        "manifest.json",
        "cell.json",
        "search.json",
        "cluster.jsonl",
        "faults.jsonl",
        "wire.jsonl",
        "stats.jsonl",
    ):
        assert file in page
    assert "| `cells` | `tuple[Any, ...] \\| None` | ids in executed order" in page
    assert "one of `sweep`, `chaos`, `search`" in page
