"""Share groups over transactions, here and on Apache Kafka: members are given the same offsets.

Markers are given too: a member acknowledges them as gaps. Records of aborted transactions are not given with isolation
level read_committed, but count against the limit and belong to an in-flight batch.
"""

from __future__ import annotations

from typing import Any

import pytest
from confluent_helper import QUIET
from confluent_kafka import Producer
from share_helper import prepare
from test_node_share_apis import MEMBER, Node
from test_node_share_apis import nodes as nodes

from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from tests.patience import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.long]
ALL = 200
FETCHES = 12  # with records
QUIET_ANSWERS = 4  # that many answers in a row without records: there are no more, or the host is very busy
TRANSACTIONS = ((2, True), (3, False), (2, True))  # records, whether it is committed; each has a marker behind it


class Member:
    """A member of a share group that reads one topic."""

    def __init__(self, node: Node, group: str, topic: str) -> None:
        self._node, self._group, self._topic, self._epoch = node, group, topic, -1
        answer = node.ask(ApiKey.METADATA, 12, topics=[{"name": topic}], allow_auto_topic_creation=False)
        self.topic_id = answer.topics[0].topic_id

    def join(self) -> None:
        epoch = 0

        def has_partition() -> bool:
            nonlocal epoch
            answer = self._node.ask(
                ApiKey.SHARE_GROUP_HEARTBEAT, 1, group_id=self._group, member_id=MEMBER, member_epoch=epoch,
                rack_id=None, subscribed_topic_names=None if epoch else [self._topic],
            )  # fmt: skip
            if answer.error_code is not ErrorCode.none:
                asked = {"key_type": 0, "coordinator_keys": [self._group]}  # this makes the coordinator's topic
                self._node.ask(ApiKey.FIND_COORDINATOR, 6, **asked)
                return False
            epoch = answer.member_epoch
            return answer.assignment is not None and bool(answer.assignment.topic_partitions)

        wait_until(has_partition, "the member has its partition")

    def fetch(self, records_max: int, *, is_strict: bool, wait_ms: int = 20_000) -> list[tuple[int, int, int]]:
        """(first offset, last offset, delivery count) of what is acquired."""
        self._epoch += 1
        values = {
            "group_id": self._group, "member_id": MEMBER, "share_session_epoch": self._epoch, "max_wait": wait_ms,
            "min_bytes": 1, "max_bytes": 1_000_000, "max_records": records_max, "batch_size": 100,
            "share_acquire_mode": int(is_strict), "is_renew_ack": False, "topics": self._topics([]),
            "forgotten_topics_data": [],
        }  # fmt: skip
        answer = self._node.ask(ApiKey.SHARE_FETCH, 2, **values)
        assert answer.error_code is ErrorCode.none
        parts = [part for topic in answer.responses for part in topic.partitions]
        return [
            (each.first_offset, each.last_offset, each.delivery_count)
            for part in parts
            for each in part.acquired_records
        ]

    def release(self, ranges: list[tuple[int, int, int]]) -> None:
        self._epoch += 1
        acks = [{"first_offset": first, "last_offset": last, "acknowledge_types": [2]} for first, last, _ in ranges]
        values = {"group_id": self._group, "member_id": MEMBER, "share_session_epoch": self._epoch}
        answer = self._node.ask(ApiKey.SHARE_ACKNOWLEDGE, 2, topics=self._topics(acks), is_renew_ack=False, **values)
        assert answer.responses[0].partitions[0].error_code is ErrorCode.none, answer

    def _topics(self, acks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{"topic_id": self.topic_id, "partitions": [{"partition_index": 0, "acknowledgement_batches": acks}]}]


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
