"""Admin, group members and transactions of the reference client against a broker whose answers are valid by the schema
but make no sense. Every call ends in time with a KafkaError or a value, and no thread dies."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.client.core.transactions import GroupMetadata, OffsetAndMetadata
from broker.door.clients import Admin, Consumer, KafkaError, NewTopic, Producer, TopicPartition
from broker.door.questions import (
    changed_replicas,
    deleted_records,
    log_directories,
    more_partitions,
    moved_logs,
    reassignments,
    settings_of,
    unregistered_broker,
)
from broker.wire.apis import ApiKey
from tests.harness.hostile_broker import HostileBroker, speaks_nonsense

pytestmark = pytest.mark.slow  # waits out time-outs of real sockets

LEADS = frozenset({int(ApiKey.API_VERSIONS), int(ApiKey.METADATA), int(ApiKey.FIND_COORDINATOR)})
TP = TopicPartition("t", 0)
OFFSETS = {TP: OffsetAndMetadata(1)}
WAITS = {
    "request.timeout.ms": "200", "retry.backoff.ms": "20", "retry.backoff.max.ms": "40", "reconnect.backoff.ms": "10",
    "reconnect.backoff.max.ms": "20",
}  # fmt: skip
API_TIMEOUT = {"default.api.timeout.ms": "150"}
CALL_S = 1.5  # of the settings above, the longest is a close with a last commit
SLACK_S = 20.0  # of a busy host

ADMIN_CALLS: list[Callable[[Admin], Any]] = [
    lambda admin: admin.create_topics([NewTopic("t", 1, 1)]),
    lambda admin: admin.delete_topics(["t"]),
    lambda admin: admin.describe_cluster(),
    lambda admin: admin.describe_topics(["t"]),
    lambda admin: admin.ask(settings_of("topic", "t")),
    lambda admin: admin.list_offsets([TP], -1),
    lambda admin: admin.ask(more_partitions({"t": 1}, 100)),
    lambda admin: admin.ask(deleted_records(TP, 1, 100), 1),
    lambda admin: admin.alter_configs("topic", "t", {"retention.ms": "1"}),
    lambda admin: admin.ask(changed_replicas({TP: [1]}, 100)),
    lambda admin: admin.ask(reassignments(None, 100)),
    lambda admin: admin.ask(unregistered_broker(9)),
    lambda admin: admin.ask(log_directories(), 1),
    lambda admin: admin.ask(moved_logs({TP: "/a"}), 1),
    lambda admin: admin.groups.describe("g"),
    lambda admin: admin.groups.delete("g"),
    lambda admin: admin.groups.offsets("g"),
]


@pytest.fixture(autouse=True)
def no_thread_dies(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    died: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: died.append(repr(args.exc_value)))
    yield
    assert died == []


def attempt(call: Callable[[], Any]) -> None:
    """A KafkaError, or whatever value; nothing else, and in time."""
    began_s = time.monotonic()
    died = ""
    try:
        call()
    except KafkaError as error:
        died = str(error) if "died" in str(error) else ""
    assert died == ""
    assert time.monotonic() - began_s < CALL_S + SLACK_S


def use_admin(address: str) -> None:
    with Admin({"bootstrap.servers": address, **WAITS, **API_TIMEOUT}) as admin:
        for call in ADMIN_CALLS:
            attempt(lambda call=call: call(admin))  # type: ignore[misc]


def use_member(address: str, protocol: str) -> None:
    named = {"group.id": "g", "group.protocol": protocol, "auto.offset.reset": "earliest"}
    beats = {"heartbeat.interval.ms": "50"} if protocol == "classic" else {}
    consumer = Consumer({"bootstrap.servers": address, **named, **beats, **WAITS, **API_TIMEOUT})
    consumer.subscribe(["t"])
    for _ in range(4):
        attempt(lambda: consumer.poll(80))
    attempt(lambda: consumer.commit_sync(OFFSETS, 150))
    attempt(lambda: consumer.committed([TP], 150))
    attempt(lambda: consumer.close(300))


def use_transactions(address: str) -> None:
    waits = {"max.block.ms": "200", "delivery.timeout.ms": "300", "linger.ms": "0"}
    producer = Producer({"bootstrap.servers": address, "transactional.id": "x", **waits, **WAITS})
    group = GroupMetadata(group_id="g", generation_id=-1, member_id="", group_instance_id=None)
    attempt(lambda: producer.init_transactions(0.2))
    for end in (producer.commit_transaction, producer.abort_transaction):
        attempt(producer.begin_transaction)
        attempt(lambda: producer.send("t", b"x").exception(3))
        attempt(lambda: producer.send_offsets_to_transaction(OFFSETS, group))
        attempt(lambda end=end: end(0.3))  # type: ignore[misc]
    attempt(lambda: producer.close(0.3))


CASES = {
    "admin": (use_admin, (0, 1, 2), {
        ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.DESCRIBE_CONFIGS, ApiKey.LIST_OFFSETS,
        ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_RECORDS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.UNREGISTER_BROKER, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.DELETE_GROUPS, ApiKey.OFFSET_FETCH,
    }),
    "classic": (lambda address: use_member(address, "classic"), range(16), {
        ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_COMMIT,
    }),
    "consumer": (lambda address: use_member(address, "consumer"), range(5), {
        ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_COMMIT,
    }),
    "transactions": (use_transactions, range(8), {
        ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN,
        ApiKey.PRODUCE,
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_nonsense_in_the_right_form_ends_calls_with_errors_of_the_client(name: str) -> None:
    use, seeds, expected = CASES[name]
    asked: set[int] = set()
    for seed in seeds:
        with HostileBroker(speaks_nonsense(seed), polite=LEADS) as broker:
            try:
                use(broker.address)
            except Exception as error:
                raise AssertionError(f"seed {seed}, last told: {broker.told[-2:]}") from error
            asked |= {key for key, _ in broker.told}
    assert {ApiKey(key).name for key in expected - asked} == set()
