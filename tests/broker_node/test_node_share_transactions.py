"""Share groups over transactions, here and on Apache Kafka: members are given the same offsets.

Markers are given too: a member acknowledges them as gaps. Records of aborted transactions are not given with isolation
level read_committed, but count against the limit and belong to an in-flight batch.
"""

from __future__ import annotations

import pytest
from confluent_helper import QUIET
from confluent_kafka import Producer
from share_helper import prepare
from test_node_share_state_apis import Member, Node
from test_node_share_state_apis import nodes as nodes

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.long]
ALL = 200
FETCHES = 12  # with records
QUIET_ANSWERS = 4  # that many answers in a row without records: there are no more, or the host is very busy
TRANSACTIONS = ((2, True), (3, False), (2, True))  # records, whether it is committed; each has a marker behind it


def send_transactions(bootstrap: str, topic: str) -> None:
    """Each transaction is one record batch."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "linger.ms": 300, **QUIET})
    producer.init_transactions(60)
    for count, is_committed in TRANSACTIONS:
        producer.begin_transaction()
        for number in range(count):
            producer.produce(topic, str(number).encode(), partition=0)
        assert producer.flush(60) == 0
        if is_committed:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)


@pytest.mark.parametrize(
    ("isolation", "is_strict", "limit"),
    [
        ("read_committed", False, ALL),
        ("read_committed", False, 3),
        ("read_committed", True, ALL),
        ("read_committed", True, 2),
        ("read_committed", True, 4),
        ("read_uncommitted", False, ALL),
        ("read_uncommitted", True, 4),
    ],
)
def test_the_same_offsets_are_given(nodes: tuple[Node, Node], isolation: str, is_strict: bool, limit: int) -> None:
    name, found = f"{isolation}-{int(is_strict)}-{limit}", []
    for node in nodes:
        bootstrap = f"127.0.0.1:{node.port}"
        prepare(bootstrap, name, name, **{"share.isolation.level": isolation})
        send_transactions(bootstrap, name)
        member = Member(node, name, name)
        member.join()
        given: list[list[tuple[int, int, int]]] = [member.fetch(limit, is_strict=is_strict)]
        member.release(given[0])
        quiet = 0
        while len(given) < FETCHES and quiet < QUIET_ANSWERS:
            # Where all that was acquired is taken back, the answer may be empty, or have what comes next.
            new = member.fetch(limit, is_strict=is_strict, wait_ms=500)
            quiet = 0 if new else quiet + 1
            if new:
                given.append(new)
                member.release(new)
        found.append(given)
    shared = min(map(len, found))
    assert shared > FETCHES / 2
    assert found[0][:shared] == found[1][:shared]
