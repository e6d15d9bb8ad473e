"""How lists of delivery states are merged, beside Kafka's own class, in one JVM."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from broker.node.features.share_groups.delivery.state_batches import StateBatch, combine
from harness.clusters.kafka.jars import ensure_jars, java_command
from tests.patience import run_command

pytestmark = [pytest.mark.slow, pytest.mark.kafka]
JAVA = Path(__file__).parent / "java" / "CombinedBatches.java"
CASES = 2_000
STATES = [0, 2, 4]  # available, acknowledged, archived
Row = list[int]


def drawn(rng: random.Random, *, may_overlap: bool) -> list[Row]:
    """Written batches come in any order, and may overlap. Those that the coordinator has were merged before."""
    rows = []
    for _ in range(rng.randrange(5)):
        first = rng.randrange(30)
        rows.append([first, first + rng.randrange(8), rng.choice(STATES), rng.randint(1, 3)])
    return rows if may_overlap else merged(rows, [], 0)


def merged(known: list[Row], news: list[Row], start_offset: int) -> list[Row]:
    found = combine(map(batch, known), map(batch, news), start_offset=start_offset)
    return [[each.first_offset, each.last_offset, each.state, each.delivery_count] for each in found]


def batch(row: Row) -> StateBatch:
    first, last, state, count = row
    return StateBatch(first_offset=first, last_offset=last, state=state, delivery_count=count)


def test_batches_are_merged_as_by_kafka(tmp_path: Path) -> None:
    rng = random.Random(4)
    cases = [
        (drawn(rng, may_overlap=False), drawn(rng, may_overlap=True), rng.choice([-1, 0, rng.randrange(35)]))
        for _ in range(CASES)
    ]
    path = tmp_path / "cases.json"
    path.write_text(json.dumps(cases))
    command = [java_command(), "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", f"{ensure_jars()}/*", str(JAVA)]
    done = run_command([*command, str(path)])
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert len(answers) == CASES
    others = 0
    for case, answer in zip(cases, answers, strict=True):
        assert by_offset(merged(*case)) == by_offset(answer), case
        others += merged(*case) != answer
    # Seldom Kafka does not join two equal neighbours, if one of them was merged out of others.
    assert others < CASES / 100


def by_offset(rows: list[Row]) -> dict[int, Row]:
    return {offset: row[2:] for row in rows for offset in range(row[0], row[1] + 1)}
