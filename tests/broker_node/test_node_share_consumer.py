"""The share consumer and the share admin of broker.client, on this broker and, with equal outcomes, on Apache Kafka."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pytest
from share_helper import one_node, prepare, send

from broker.client.core.shares.values import ShareRecord
from broker.door.clients import AcknowledgementOutcome, AcknowledgeType, Admin, KafkaError, ShareConsumer
from broker.door.clients import TopicPartition as Place
from broker.wire.errors import ErrorCode
from tests.patience import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.kafka]
WAIT_S = 60.0
LIMIT: dict[str, object] = {"max.poll.records": 10, "share.acquire.mode": "record_limit"}


@pytest.fixture(scope="module", params=["reference", pytest.param("kafka", marks=pytest.mark.long)])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with one_node(request.param, tmp_path_factory.mktemp(request.param)) as address:
        yield address


def opened(bootstrap: str, group: str, mode: str = "explicit", **more: object) -> ShareConsumer:
    own = {name.replace("_", "."): value for name, value in more.items()}
    consumer = ShareConsumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": mode, **own}
    )
    consumer.subscribe([group])
    return consumer


def read(consumer: ShareConsumer, count: int) -> list[ShareRecord]:
    """Records until there are so many. In explicit mode they are accepted, except those of the last poll."""
    found: list[ShareRecord] = []
    last: list[ShareRecord] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records"
        if consumer.effective_properties()["share.acknowledgement.mode"] == "explicit":
            for record in last:
                consumer.acknowledge(record)
        last = consumer.poll(500)
        found += last
    return found


def values(records: list[ShareRecord]) -> list[int]:
    return sorted(int(each.value or b"") for each in records)


def test_implicit_mode_accepts_with_the_next_poll_and_the_commit(bootstrap: str) -> None:
    prepare(bootstrap, "implicit", "implicit", partitions=3)
    send(bootstrap, "implicit", range(1000), partitions=3)
    with opened(bootstrap, "implicit", "implicit") as consumer:
        found = read(consumer, 1000)
        assert set(consumer.commit_sync().values()) <= {None}
        with pytest.raises(KafkaError, match=r"needs share\.acknowledgement\.mode"):
            consumer.acknowledge(found[0])
    assert (values(found), {each.delivery_count for each in found}) == (list(range(1000)), {1})
    with opened(bootstrap, "implicit") as again:
        assert again.poll(2000) == []


def test_each_type_of_acknowledgement_has_its_effect(bootstrap: str) -> None:
    prepare(bootstrap, "types", "types", **{"share.delivery.count.limit": "3"})
    send(bootstrap, "types", range(10))
    told: list[AcknowledgementOutcome] = []
    deliveries: Counter[int] = Counter()
    with opened(bootstrap, "types") as consumer:
        consumer.set_acknowledgement_commit_callback(told.extend)
        deadline = time.monotonic() + WAIT_S
        while deliveries[8] < 3:
            assert time.monotonic() < deadline, deliveries
            for record in consumer.poll(500):
                value = int(record.value or b"")
                deliveries[value] += 1
                assert record.delivery_count == deliveries[value]
                kind = {8: AcknowledgeType.RELEASE, 9: AcknowledgeType.REJECT}.get(value, AcknowledgeType.ACCEPT)
                consumer.acknowledge(record, kind)
        assert set(consumer.commit_sync().values()) == {None}
        assert consumer.poll(1500) == [], "8 was delivered as often as the group allows"
    assert deliveries == {**dict.fromkeys(range(10), 1), 8: 3}
    assert all(each.error is None for each in told)
    counts = Counter(kind for each in told for kind in each.types.values())
    assert counts == {AcknowledgeType.ACCEPT: 8, AcknowledgeType.RELEASE: 3, AcknowledgeType.REJECT: 1}


def test_explicit_mode_wants_every_record_acknowledged(bootstrap: str) -> None:
    prepare(bootstrap, "every", "every")
    send(bootstrap, "every", range(3))
    with opened(bootstrap, "every") as consumer:
        found = read(consumer, 3)
        consumer.acknowledge(found[0])
        with pytest.raises(KafkaError, match="records of the last poll are not acknowledged"):
            consumer.poll(0)
        for record in found[1:]:
            consumer.acknowledge_offset(Place(record.topic, record.partition), record.offset, AcknowledgeType.ACCEPT)
        assert consumer.commit_sync() == {Place("every", 0): None}


def test_closing_releases_what_was_not_acknowledged(bootstrap: str) -> None:
    prepare(bootstrap, "close", "close")
    send(bootstrap, "close", range(6))
    with opened(bootstrap, "close", max_poll_records=4, share_acquire_mode="record_limit") as first:
        held = read(first, 4)
        for record in held[:2]:
            first.acknowledge(record)
    with opened(bootstrap, "close") as second:
        rest = read(second, 4)  # long before a lock would end
        for record in rest:
            second.acknowledge(record)
    assert (values(held), values(rest)) == ([0, 1, 2, 3], [2, 3, 4, 5])
    assert {int(each.value or b""): each.delivery_count for each in rest} == {2: 2, 3: 2, 4: 1, 5: 1}


def test_an_acknowledgement_after_the_lock_has_ended_is_refused_and_the_record_comes_again(bootstrap: str) -> None:
    prepare(bootstrap, "late", "late", **{"share.record.lock.duration.ms": "2000"})
    send(bootstrap, "late", range(2))
    with opened(bootstrap, "late") as consumer:
        found = read(consumer, 2)
        with opened(bootstrap, "late") as other:
            taken = read(other, 2)  # which it gets when the locks have ended
        for record in found:
            consumer.acknowledge(record)
        [error] = consumer.commit_sync().values()
        assert error is not None
        assert (error.code, error.definite) == (ErrorCode.invalid_record_state, True)
        again = read(consumer, 2)
        for record in again:
            consumer.acknowledge(record)
    assert [each.delivery_count for each in taken + again] == [2, 2, 3, 3]


def test_a_renewed_record_is_polled_again_and_stays_with_the_member(bootstrap: str) -> None:
    lock_s = 8  # a busy host may take nearly as long from one renewal to the next
    prepare(bootstrap, "renew2", "renew2", **{"share.record.lock.duration.ms": str(lock_s * 1000)})
    send(bootstrap, "renew2", range(2))
    with opened(bootstrap, "renew2") as consumer:
        found = read(consumer, 2)
        end_s = time.monotonic() + lock_s + 1
        while time.monotonic() < end_s:
            for record in found:
                consumer.acknowledge(record, AcknowledgeType.RENEW)
            assert set(consumer.commit_sync().values()) == {None}
            found = consumer.poll(1000)
            assert (values(found), [each.delivery_count for each in found]) == ([0, 1], [1, 1])
            time.sleep(1)
        for record in found:
            consumer.acknowledge(record)
        assert set(consumer.commit_sync().values()) == {None}, "after the end of the first lock"


def test_two_members_share_a_partition(bootstrap: str) -> None:
    prepare(bootstrap, "two", "two")
    with opened(bootstrap, "two", "implicit", **LIMIT) as one:
        with opened(bootstrap, "two", "implicit", **LIMIT) as other:
            wait_until(lambda: one.poll(100) == [] and other.poll(100) == [] and other.assignment(), "both are members")
            send(bootstrap, "two", range(200))
            found: dict[str, list[ShareRecord]] = {"one": [], "other": []}
            deadline = time.monotonic() + WAIT_S
            while sum(map(len, found.values())) < 200:
                assert time.monotonic() < deadline
                found["one"] += one.poll(100)
                found["other"] += other.poll(100)
    assert values(found["one"] + found["other"]) == list(range(200))
    assert all(found.values()), "each got some"


def test_an_administrator_is_told_where_a_share_group_stands(bootstrap: str) -> None:
    prepare(bootstrap, "moved", "moved")
    send(bootstrap, "moved", range(10))
    place = Place("moved", 0)
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        with opened(bootstrap, "moved", "implicit") as consumer:
            read(consumer, 10)
            consumer.commit_sync()
        # The broker tells the start offset of its last write, and counts what is done beyond it.
        told = [*admin.share_groups.offsets("moved").values(), admin.share_groups.offsets("moved", [place])[place]]
        assert {each.lag for each in told} == {0}
        admin.groups.delete("moved")
        with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
            admin.groups.delete("moved")
