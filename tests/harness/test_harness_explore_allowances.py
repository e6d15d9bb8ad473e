"""`harness.explore.findings.known_findings`: known findings from a file, and what is wrong with such a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.explore.findings.known_findings import Allowance, allowance_of, read_allowances

CAUSE = "no progress after healing (consumer; at its start; asks for Heartbeat)"
FILE = f"""
- signature: "{CAUSE}"
  reason: the offsets are never asked for again
  link: https://github.com/confluentinc/librdkafka/issues/5586
- {{signature: "* (producer, Produce)", reason: we accept these}}
"""


def test_a_file_is_read_and_covers_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "known.yaml"
    path.write_text(FILE)
    known = read_allowances(path)
    found = allowance_of(known, CAUSE)
    assert str(found) == (
        "the offsets are never asked for again (https://github.com/confluentinc/librdkafka/issues/5586)"
    )
    assert allowance_of(known, "duplicated (producer, Produce)") is known[1]
    assert allowance_of(known, "duplicated (producer, Metadata)", "duplicated (consumer)") is None


def test_only_the_star_is_special() -> None:
    assert Allowance(signature="a [b] (c?)", reason="r").covers("a [b] (c?)")
    assert not Allowance(signature="a?", reason="r").covers("ab")
    assert not Allowance(signature="[ab]", reason="r").covers("a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1", "expected a list of at most"),
        ("- a", "entry 1: expected signature, reason, link"),
        ("- {signature: a}", "entry 1: reason is missing"),
        ("- {signature: a, reason: b}\n- {signatur: a, reason: b}", "entry 2: there is no field 'signatur'.*signature"),
        ("- {signature: a, reason: 7}", "entry 1: reason: expected a text, got 7"),
        ("- {signature: [", "--known"),
    ],
)
def test_what_is_wrong_is_told_with_its_entry(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "known.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_allowances(path)
    with pytest.raises(UsageError, match=r"nothing\.yaml"):
        read_allowances(tmp_path / "nothing.yaml")
