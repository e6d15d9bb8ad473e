"""Allowances: what they cover, until when, and that nothing is allowed by accident."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from reports.judge.allowances import AllowanceError, Allowances, read_allowances
from reports.judge.checks import FAIL, INCONCLUSIVE, PASS, Check, Verdict

TEXT = """
allow:
  - {cell: chaos-leader-*, invariant: lost*, because: ticket 12, until: 2026-06-01}
  - {cell: chaos-leader-*, invariant: lost*, because: ticket 13, until: 2026-09-01}
  - {cell: other, invariant: "*", because: nobody knows, until: 2026-09-01}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "allowed.yaml"
    path.write_text(TEXT)
    return path


def verdict(*results: tuple[str, str]) -> Verdict:
    checks = tuple(Check(name=name, result=result, reason=f"why {name}") for name, result in results)
    return Verdict(result=FAIL, checks=checks)


def apply(file: Path, day: str, cell: str, given: Verdict) -> Verdict:
    return Allowances(read_allowances(file), today=date.fromisoformat(day)).apply(cell, given)


def test_an_allowed_failure_is_a_pass_that_says_so(file: Path) -> None:
    judged = apply(file, "2026-05-31", "chaos-leader-loss", verdict(("lost records", FAIL), ("order", PASS)))
    assert judged.result == PASS
    assert judged.checks[0].allowed == "allowed until 2026-09-01 (ticket 13): why lost records"
    assert judged.checks[1].allowed == ""


def test_other_failures_and_doubts_of_the_cell_count_as_ever(file: Path) -> None:
    failing = verdict(("lost records", FAIL), ("order", FAIL))
    assert apply(file, "2026-05-31", "chaos-leader-loss", failing).result == FAIL
    doubtful = verdict(("lost records", FAIL), ("fault proved", INCONCLUSIVE))
    assert apply(file, "2026-05-31", "chaos-leader-loss", doubtful).result == INCONCLUSIVE
    assert apply(file, "2026-05-31", "chaos-unclean", verdict(("lost records", FAIL))).result == FAIL


def test_from_its_day_on_it_fails_again_and_says_why(file: Path) -> None:
    judged = apply(file, "2026-09-01", "chaos-leader-loss", verdict(("lost records", FAIL)))
    assert judged.result == FAIL
    assert judged.reasons == ["why lost records (was allowed until 2026-09-01)"]


def test_an_allowance_that_matches_nothing_is_told(file: Path) -> None:
    allowances = Allowances(read_allowances(file), today=date(2026, 5, 31))
    allowances.apply("chaos-leader-loss", verdict(("lost records", FAIL)))
    assert list(allowances.notes()) == ["allowance other / * (nobody knows) matched no failure: remove it"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("allow: [{cell: a, invariant: b, because: c}]", "allow.0.until: this key is required"),
        ("allow: [{cell: a, invariant: b, because: c, untill: 2026-01-01}]", "allow.0"),
        ("allow: [{cell: a, invariant: b, because: c, until: someday}]", "allow.0.until"),
        ("allow: [", "expected"),
        ("permit: []", "allow: this key is required"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(AllowanceError, match=words) as error:
        read_allowances(path)
    assert str(path) in str(error.value)
