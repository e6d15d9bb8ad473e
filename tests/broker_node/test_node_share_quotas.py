"""The fetch quota (consumer_byte_rate) counts what a member of a share group reads, and slows it down."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from cluster_helper import Cluster
from share_helper import SETTINGS, prepare
from wire_helper import CLIENT_ID, TIMEOUT_S, ask_over, limit_reading

from broker.door.clients import Producer
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import to_ms
from tests.patience import wait_until

pytestmark = [pytest.mark.slow]
GROUP, TOPIC, MEMBER = "g", "t", "AAAAAAAAAAAAAAAAAAAAAQ"
RATE = 1_000  # bytes a second: at most 20,000 bytes in one answer
WINDOW = {"quota.window.num": 11, "quota.window.size.seconds": 2}  # longer than a busy host takes for two answers
RECORD_BYTES, RECORDS = 5_000, 7  # three in one answer: two answers are above the rate


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[socket.socket]:
    with Cluster(tmp_path, brokers=1, settings={**SETTINGS, **WINDOW}) as running:
        port = running.ports[1]["DIRECT"]
        bootstrap = f"127.0.0.1:{port}"
        prepare(bootstrap, TOPIC, GROUP)
        with Producer({"bootstrap.servers": bootstrap, "linger.ms": 0}) as producer:
            for _ in range(RECORDS):  # each one is a record batch
                producer.send(TOPIC, bytes(RECORD_BYTES), partition=0).get(60)
        limit_reading(port, CLIENT_ID, RATE)
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as opened:
            yield opened


def _joined(connection: socket.socket) -> UUID:
    """The id of the topic, once the member has its partition."""
    epoch, found = 0, []

    def has_coordinator() -> bool:
        answer = ask_over(connection, ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=[GROUP])
        return answer.coordinators[0].error_code is ErrorCode.none

    def has_partition() -> bool:
        nonlocal epoch
        values: dict[str, Any] = {"group_id": GROUP, "member_id": MEMBER, "member_epoch": epoch, "rack_id": None}
        values["subscribed_topic_names"] = None if epoch else [TOPIC]
        answer = ask_over(connection, ApiKey.SHARE_GROUP_HEARTBEAT, 1, **values)
        if answer.error_code is not ErrorCode.none:
            return False
        epoch = answer.member_epoch
        if answer.assignment is not None:
            found.extend(each.topic_id for each in answer.assignment.topic_partitions)
        return bool(found)

    wait_until(has_coordinator, "a group coordinator")
    wait_until(has_partition, "the member has its partition")
    topic_id: UUID = found[0]
    return topic_id


def test_what_a_member_reads_counts_and_more_than_its_rate_must_wait(connection: socket.socket) -> None:
    topic = {"topic_id": _joined(connection), "partitions": [{"partition_index": 0, "acknowledgement_batches": []}]}
    sizes, waits_ms = [], []
    for epoch in range(4):
        answer = ask_over(
            connection,
            ApiKey.SHARE_FETCH,
            2,
            group_id=GROUP,
            member_id=MEMBER,
            share_session_epoch=epoch,
            max_wait=20_000,
            min_bytes=1,
            max_bytes=1_000_000,
            max_records=100,
            batch_size=100,
            topics=[] if epoch else [topic],
            forgotten_topics_data=[],
        )
        assert answer.error_code is ErrorCode.none
        sizes.append(sum(len(part.records or b"") for each in answer.responses for part in each.partitions))
        waits_ms.append(to_ms(answer.throttle_time))
        if sum(sizes) > RECORD_BYTES * RECORDS:
            break
    assert max(sizes) <= RATE * 20
    assert sum(sizes) > RECORD_BYTES * RECORDS
    assert waits_ms[0] == 0
    assert max(waits_ms) > 0
