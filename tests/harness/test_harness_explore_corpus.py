"""`harness.explore.search.corpus`: a later search begins with what searches before have met and found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.explore.generators.programs import drawn, plain
from harness.explore.search.corpus import Corpus, extend_corpus, fits, read_corpus
from harness.explore.search.search import CONTROLS, Purpose, Search
from harness.explore.trial.model import Disturbance, How, Trial
from tests.harness.search_histories import QUIET, USES

PRODUCER = plain(["produce"])[0]
FINDING = Trial(program=PRODUCER, disturbance=Disturbance(api="Produce", how=How.LATE, late_ms=77))


def test_what_one_search_leaves_another_reads_and_nothing_is_there_twice(tmp_path: Path) -> None:
    program = drawn(["produce"], 7)
    assert program is not None
    assert extend_corpus(tmp_path, [program], [FINDING]) == 2
    assert extend_corpus(tmp_path, [replace(program, name="drawn 8")], [FINDING]) == 0
    found = read_corpus(tmp_path)
    assert (found.programs, found.findings, found.unread) == ((program,), (FINDING,), ())


def test_no_corpus_yet_is_an_empty_one_and_a_file_is_none(tmp_path: Path) -> None:
    assert read_corpus(tmp_path / "new") == Corpus()
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="it is no directory"):
        read_corpus(tmp_path / "file")


def test_a_file_of_another_version_is_left_alone_and_told(tmp_path: Path) -> None:
    extend_corpus(tmp_path, [], [FINDING])
    (tmp_path / "findings" / "other.json").write_text('{"format": 99}')
    found = read_corpus(tmp_path)
    assert (found.findings, found.unread) == ((FINDING,), ("other.json",))
    assert (tmp_path / "findings" / "other.json").exists()


def test_a_program_fits_only_a_client_that_can_do_all_its_moves() -> None:
    (group,) = (one for one in plain(["subscribe", "commit"]) if one.name == "group, commits itself")
    assert fits(group, ["subscribe", "commit"])
    assert not fits(group, ["subscribe", "produce"])


def test_one_record_a_poll_fits_only_a_client_that_has_it() -> None:
    (group,) = (one for one in plain(["subscribe", "commit"]) if one.name == "group, commits itself")
    program = replace(group, is_one_by_one=True)
    assert fits(program, {"subscribe", "commit", "one-by-one"})
    assert not fits(program, {"subscribe", "commit"})


def test_what_was_found_before_is_tried_first_and_what_was_kept_is_kept_on() -> None:
    program = drawn(["produce"], 7)
    assert program is not None
    search = Search([PRODUCER], abilities=["produce"], seed=1, kept=[program], first=[FINDING])
    for _ in range(CONTROLS):
        task = search.next_task()
        assert task is not None
        search.learn(task, QUIET, USES)
    task = search.next_task()
    assert task is not None
    assert (task.trial, task.purpose) == (FINDING, Purpose.NEW)
    assert program in search.kept
