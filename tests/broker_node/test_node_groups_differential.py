"""Apache Kafka and our broker answer alike: a script of 300 group requests, one of members that subscribe by pattern,
and generated requests of every API.

Only a few requests are generated here. `make differential` sends many, and writes docs/reference/differences.md.

One thing differs on purpose, and is not in the scripts: if a join or every offset of a group was refused, Kafka lists
the group. Here it is not listed, because nothing of it was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from group_script import GroupScript
from pattern_script import PatternScript

from tests.differential import guarded
from tests.differential.generator import chapters
from tests.differential.run import Result, both, run
from tests.differential.side import Side

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.kafka]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with both(tmp_path_factory.mktemp("differential")) as (theirs, ours):
        yield theirs, ours


def test_group_requests_are_answered_as_by_apache_kafka(sides: tuple[Side, Side]) -> None:
    compare_scripts(sides, GroupScript, requests=300)


def test_members_with_patterns_are_answered_as_by_apache_kafka(sides: tuple[Side, Side]) -> None:
    compare_scripts(sides, PatternScript, requests=37)


def compare_scripts(sides: tuple[Side, Side], script: type[GroupScript], *, requests: int) -> None:
    theirs = script(sides[0].port).run()
    ours = script(sides[1].port).run()
    assert [label for label, _ in ours] == [label for label, _ in theirs]
    different = [
        f"{label}\n  Apache Kafka: {expected}\n  ours:         {got}"
        for (label, expected), (_, got) in zip(theirs, ours, strict=True)
        if expected != got
    ]
    assert not different, "\n".join(different)
    assert len(ours) == requests


@pytest.mark.long
def test_generated_requests_are_answered_as_by_apache_kafka(sides: tuple[Side, Side]) -> None:
    result = Result()
    run(*sides, chapters(seed=1, requests=2, looks=False), result)
    assert not result.unnamed, "\n".join(str(each) for each in result.unnamed)
    assert sum(result.requests.values()) > 600


@pytest.mark.long
def test_generated_requests_are_answered_alike_under_access_control_lists(tmp_path: Path) -> None:
    result = Result()
    with both(tmp_path, is_guarded=True) as (theirs, ours):
        asked = chapters(seed=1, requests=2, looks=False)
        run(theirs, ours, asked, result, rules_of=lambda chapter: guarded.rules_of(chapter, 1))
    assert not result.unnamed, "\n".join(str(each) for each in result.unnamed)
    assert sum(result.requests.values()) > 600
