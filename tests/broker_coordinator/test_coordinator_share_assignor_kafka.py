"""Our assignor of share groups beside Kafka's own class, in one JVM.

Kafka walks over hash tables, we walk in order. The topics of the small cases have ids whose hash codes are small and
come one after the other, so a hash table has them in order: there both must give the same. Of the large cases both
must have the same balance and move as little.
"""

from __future__ import annotations

import json
import random
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest

from broker.node.features.share_groups.groups.assignor import assign
from harness.clusters.kafka.jars import ensure_jars, java_command
from tests.patience import run_command

pytestmark = [pytest.mark.slow, pytest.mark.kafka]
JAVA = Path(__file__).parent / "java" / "ShareAssignments.java"
SLOTS = 4  # partitions of a topic of a small case
INVERSE_OF_31 = pow(31, -1, 2**32)
Given = Mapping[UUID, frozenset[int]]
Pairs = frozenset[tuple[str, UUID, int]]


@dataclass(frozen=True, slots=True)
class Case:
    subscriptions: Mapping[str, frozenset[UUID]]
    partitions: Given
    present: Mapping[str, Given]
    is_homogeneous: bool

    def answer(self) -> dict[str, dict[UUID, frozenset[int]]]:
        return assign(self.subscriptions, self.partitions, self.present, is_homogeneous=self.is_homogeneous)

    def as_json(self) -> dict[str, object]:
        topics = {topic for each in self.subscriptions.values() for topic in each}
        sizes = {topic: max(self.partitions.get(topic, frozenset()), default=-1) + 1 for topic in topics}
        return {
            "homogeneous": self.is_homogeneous,
            "sizes": {_text(topic): size for topic, size in sizes.items()},
            "assignable": _texts(self.partitions),
            "members": [
                {"name": name, "topics": [_text(topic) for topic in sorted(topics)],
                 "present": _texts(self.present.get(name, {}))}
                for name, topics in sorted(self.subscriptions.items())
            ],
        }  # fmt: skip


def _text(topic: UUID) -> str:
    return urlsafe_b64encode(topic.bytes).decode().rstrip("=")


def _texts(given: Given) -> dict[str, list[int]]:
    return {_text(topic): sorted(indexes) for topic, indexes in given.items()}


def pairs(answer: Mapping[str, Given]) -> Pairs:
    return frozenset(
        (name, topic, index) for name, given in answer.items() for topic, indexes in given.items() for index in indexes
    )


def kafkas(directory: Path, cases: list[Case]) -> list[Pairs]:
    """What Kafka's class answers to each."""
    path = directory / "cases.json"
    path.write_text(json.dumps([case.as_json() for case in cases]))
    command = [java_command(), "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", f"{ensure_jars()}/*", str(JAVA)]
    done = run_command([*command, str(path)])
    assert done.returncode == 0, done.stderr
    ids = {_text(topic): topic for case in cases for topic in _topics_of(case)}
    return [
        pairs({name: {ids[topic]: frozenset(row) for topic, row in given.items()} for name, given in answer.items()})
        for answer in json.loads(done.stdout)
    ]


def _topics_of(case: Case) -> set[UUID]:
    known = {topic for given in case.present.values() for topic in given}
    return known.union(*case.subscriptions.values())


def topic_of_hash(number: int) -> UUID:
    """Topic `number`: partition p of it has the hash code number * SLOTS + p in Kafka."""
    code = number * SLOTS * INVERSE_OF_31 % 2**32
    return UUID(int=(number << 64) | (code ^ number))


def chain(
    seed: int, topics: list[UUID], most_members: int, most_partitions: int, *, is_homogeneous: bool
) -> list[Case]:
    """A group over some time: members and partitions come and go, subscriptions change."""
    rng = random.Random(seed)
    sizes = {topic: rng.randint(0, most_partitions) for topic in topics}
    present: Mapping[str, Given] = {}
    found = []
    for _ in range(5):
        names = [f"m{index:02}" for index in range(most_members) if rng.random() < 0.6] or ["m00"]
        wanted = frozenset(topic for topic in topics if rng.random() < 0.8)
        subscriptions = {name: wanted if is_homogeneous else _some(rng, topics) for name in names}
        sizes = {topic: min(most_partitions, size + rng.choice([0, 0, 1])) for topic, size in sizes.items()}
        partitions = {topic: frozenset(range(size)) for topic, size in sizes.items()}
        case = Case(subscriptions, partitions, {name: present.get(name, {}) for name in names}, is_homogeneous)
        found.append(case)
        present = case.answer()
    return found


def _some(rng: random.Random, topics: list[UUID]) -> frozenset[UUID]:
    return frozenset(topic for topic in topics if rng.random() < 0.6)


def test_the_small_cases_have_the_same_assignment(tmp_path: Path) -> None:
    topics = [topic_of_hash(number) for number in range(3)]
    cases = [case for seed in range(120) for case in chain(seed, topics, 9, SLOTS, is_homogeneous=False)]
    cases += [case for seed in range(120) for case in chain(seed, topics[:1], 9, SLOTS, is_homogeneous=True)]
    answers = kafkas(tmp_path, cases)
    assert len(answers) == len(cases) == 1200
    for case, answer in zip(cases, answers, strict=True):
        assert pairs(case.answer()) == answer, case


def test_the_large_cases_have_the_same_balance_and_move_as_little(tmp_path: Path) -> None:
    cases = []
    for seed in range(120):
        rng = random.Random(-seed)
        topics = [UUID(int=rng.getrandbits(128)) for _ in range(rng.randint(1, 5))]
        cases += chain(seed, topics, 40, 20, is_homogeneous=seed % 2 == 0)
    kept_here = kept_there = 0
    for case, answer in zip(cases, kafkas(tmp_path, cases), strict=True):
        ours, before = pairs(case.answer()), pairs(case.present)
        assert balance(ours) == balance(answer), case
        # The order of the hash table decides by chance whether one that was had before is given back.
        assert abs(len(ours & before) - len(answer & before)) <= 3, case
        kept_here, kept_there = kept_here + len(ours & before), kept_there + len(answer & before)
    assert kept_here == pytest.approx(kept_there, rel=0.01)
    assert kept_here > 5_000


def balance(found: Pairs) -> tuple[list[int], list[int]]:
    """How many partitions each member has, and how many members read each partition. Neither says which."""
    members, places = Counter(name for name, _, _ in found), Counter((topic, index) for _, topic, index in found)
    return sorted(members.values()), sorted(places.values())
