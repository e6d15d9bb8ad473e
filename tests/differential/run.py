"""One run: both brokers, every chapter on both in step, every difference named or told."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster_helper import Cluster
from kafka_node import kafka_node

from broker.wire.apis import ApiKey
from tests.differential import guarded
from tests.differential.differences import Found, compare, name_of
from tests.differential.generator import Asked, Chapter
from tests.differential.side import OWN_ADDRESS, Side

SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    # No member of the newer protocols goes on one side only, however long a busy host takes.
    **{f"group.{kind}.{bound}session.timeout.ms": 600_000 for kind in ("consumer", "share") for bound in ("", "max.")},
    "group.consumer.assignment.interval.ms": 0,
    "group.share.assignment.interval.ms": 0,
    "broker.session.timeout.ms": 120_000,  # nothing is fenced on a slow machine
    "log.retention.check.interval.ms": 86_400_000,  # the records' timestamps are older than log.retention.hours
}
KAFKA_SETTINGS = {
    "log.initial.task.delay.ms": 86_400_000,  # its first look for old records does not wait for the interval
    "share.coordinator.state.topic.replication.factor": 1,  # there is one node: no share group has a state otherwise
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 4,
}
# What a reader sees differently for a moment only (a member's time ran out on one side first) is no difference.
READING = frozenset({
    ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS, ApiKey.METADATA, ApiKey.LIST_OFFSETS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,  # Apache Kafka's broker may learn of a change after its answer
})  # fmt: skip
TOLD_MAX, TOLD_CHARACTERS = 3, 1_500  # of a chapter at once; all come at the end
GOING_S = (0.25, 0.9)  # around the rebalance timeout in values.py
READ_AGAIN_TIMES, READ_AGAIN_AFTER_S = 3, 0.5


@dataclass(slots=True, kw_only=True)
class Result:
    requests: Counter[str] = field(default_factory=Counter)  # by API and version
    equal: Counter[str] = field(default_factory=Counter)
    named: Counter[str] = field(default_factory=Counter)
    unnamed: list[Found] = field(default_factory=list)

    @classmethod
    def of_all(cls, parts: Iterable[Result]) -> Result:
        whole = cls()
        for part in parts:
            whole.requests += part.requests
            whole.equal += part.equal
            whole.named += part.named
            whole.unnamed += part.unnamed
        return whole


@contextmanager
def both(directory: Path, *, is_guarded: bool = False) -> Iterator[tuple[Side, Side]]:
    """(Apache Kafka, ours), ready. `is_guarded`: with an authorizer, and asked as the guest of guarded.py."""
    settings = {**SETTINGS, **guarded.SETTINGS} if is_guarded else SETTINGS
    source = guarded.GUEST if is_guarded else OWN_ADDRESS
    with ExitStack() as stack:
        for name in ("kafka", "ours"):
            (directory / name).mkdir(parents=True)
        port = stack.enter_context(kafka_node(directory / "kafka", {**settings, **KAFKA_SETTINGS}))
        theirs = Side(port, source)
        cluster = stack.enter_context(Cluster(directory / "ours", brokers=1, settings=settings))
        ours = Side(cluster.ports[1]["DIRECT"], source)
        for side in (theirs, ours):
            stack.callback(side.close)
            side.wait_until_ready()
            if is_guarded:
                side.allow(OWN_ADDRESS, guarded.EVERYTHING)
        yield theirs, ours


def run(
    theirs: Side,
    ours: Side,
    chapters: Iterable[Chapter],
    result: Result,
    tell: Callable[[str], None] = lambda _: None,
    *,
    rules_of: Callable[[Chapter], list[Mapping[str, Any]]] | None = None,
) -> None:
    """Adds to `result`. `rules_of`: what the guest may do in a chapter."""
    with ThreadPoolExecutor(1) as other:  # both at once, one request at a time each
        for chapter in chapters:
            begun = other.submit(theirs.begin, chapter)
            ours.begin(chapter)
            begun.result()
            if rules_of is not None:
                rules = rules_of(chapter)
                allowed = other.submit(theirs.allow, guarded.GUEST, rules)
                ours.allow(guarded.GUEST, rules)
                allowed.result()
            before = len(result.unnamed)
            for asked in chapter.asked:
                _let_members_go(theirs, ours)
                for attempt in range(READ_AGAIN_TIMES):
                    answer = other.submit(theirs.ask, asked)
                    differences = list(compare(asked, ours=ours.ask(asked), theirs=answer.result()))
                    is_final = asked.key not in READING or attempt + 1 == READ_AGAIN_TIMES
                    if is_final or all(name_of(each) for each in differences):
                        break
                    time.sleep(READ_AGAIN_AFTER_S)
                _note(asked, differences, result)
            new = result.unnamed[before:]
            if new and rules_of is not None:
                tell("  " + "; ".join(guarded.described(rules)))
            tell(f"{chapter.title}: {len(chapter.asked)} requests, {len(new)} unnamed differences")
            for each in new[:TOLD_MAX]:
                tell(
                    f"  {each.path}: Apache Kafka {each.theirs}, ours {each.ours}; asked {each.asked}"[:TOLD_CHARACTERS]
                )


def _let_members_go(*sides: Side) -> None:
    """A member that joined and does not sync goes after its rebalance timeout: not asked while it may be gone on one
    side only."""
    now_s = time.monotonic()
    since_s = [now_s - side.joined_at_s for side in sides]
    if any(GOING_S[0] <= each < GOING_S[1] for each in since_s):
        time.sleep(GOING_S[1] - min(since_s))


def _note(asked: Asked, differences: list[Found], result: Result) -> None:
    title = f"{asked.key.name} v{asked.version}"
    result.requests[title] += 1
    result.equal[title] += not differences
    for name in {name for each in differences if (name := name_of(each))}:
        result.named[name] += 1
    result.unnamed += [each for each in differences if name_of(each) is None]
