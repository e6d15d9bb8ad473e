"""Share groups with Kafka's own Java client (KIP-932), on this broker and, with equal outcomes, on Apache Kafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from share_helper import IDLE_MS, members, one_node, prepare, send
from wire_helper import ask

from broker.door.clients import Producer
from broker.wire.apis import ApiKey
from tests.patience import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.long]


@pytest.fixture(scope="module", params=["reference", "kafka"])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with one_node(request.param, tmp_path_factory.mktemp(request.param)) as address:
        yield address


def test_a_queue_over_three_members_is_processed_once(bootstrap: str, tmp_path: Path) -> None:
    prepare(bootstrap, "queue", "queue", partitions=3)
    port = int(bootstrap.rpartition(":")[2])
    with members(tmp_path, bootstrap) as started:
        readers = [started.start("queue", "queue", "implicit", 10_000, IDLE_MS) for _ in range(3)]

        def are_members() -> bool:
            asked = {"group_ids": ["queue"], "include_authorized_operations": False}
            (found,) = ask(port, ApiKey.SHARE_GROUP_DESCRIBE, 1, **asked).groups
            return len(found.members) == 3 and all(each.assignment.topic_partitions for each in found.members)

        wait_until(are_members, "all are members and have partitions")
        send(bootstrap, "queue", range(10_000), partitions=3)
        wait_until(lambda: sum(len(reader.deliveries()) for reader in readers) >= 10_000, "all records")
        for reader in readers:
            reader.stop()
        found = [reader.wait() for reader in readers]
    everything = [delivery for each in found for delivery in each]
    assert sorted(int(each.value) for each in everything) == list(range(10_000))
    assert {each.deliveries for each in everything} == {1}
    assert sum(bool(each) for each in found) >= 2, [len(each) for each in found]


def test_what_a_dead_member_held_comes_again(bootstrap: str, tmp_path: Path) -> None:
    prepare(bootstrap, "dead", "dead")
    send(bootstrap, "dead", range(20))
    with members(tmp_path, bootstrap) as started:
        dead = started.start("dead", "dead", "hold", 100, IDLE_MS)
        dead.wait_until_it_prints("held")
        dead.kill()
        held = {each.place for each in dead.deliveries()}
        again = started.start("dead", "dead", "accept", 20, IDLE_MS).wait()
    assert sorted(int(each.value) for each in again) == list(range(20))
    assert {each.deliveries for each in again if each.place in held} == {2}


def test_what_a_member_holds_too_long_goes_to_another(bootstrap: str, tmp_path: Path) -> None:
    prepare(bootstrap, "lock", "lock", **{"share.record.lock.duration.ms": "8000"})
    send(bootstrap, "lock", range(20))
    with members(tmp_path, bootstrap) as started:
        holder = started.start("lock", "lock", "hold", 100, IDLE_MS)
        holder.wait_until_it_prints("held")
        held = {each.place for each in holder.deliveries()}
        again = started.start("lock", "lock", "accept", 20, IDLE_MS).wait()
    assert sorted(int(each.value) for each in again) == list(range(20))
    # It may get them itself once more in the background, before the other one has started.
    assert all(each.deliveries >= 2 for each in again if each.place in held)


def test_a_released_record_comes_until_the_limit_and_a_rejected_one_once(bootstrap: str, tmp_path: Path) -> None:
    prepare(bootstrap, "mixed", "mixed", **{"share.delivery.count.limit": "3"})
    send(bootstrap, "mixed", range(10, 30))
    with members(tmp_path, bootstrap) as started:
        found = started.start("mixed", "mixed", "mixed", 24, IDLE_MS).wait()
        rest = started.start("mixed", "mixed", "accept", 100, 12_000).wait()
    counts = Counter(int(each.value) for each in found)
    assert counts == {value: 3 if value % 10 == 8 else 1 for value in range(10, 30)}
    assert [each.deliveries for each in found if each.value == "18"] == [1, 2, 3]
    assert rest == [], "everything is done"


def test_a_renewed_lock_keeps_the_records(bootstrap: str, tmp_path: Path) -> None:
    prepare(bootstrap, "renew", "renew", **{"share.record.lock.duration.ms": "10000"})
    send(bootstrap, "renew", range(5))
    with members(tmp_path, bootstrap) as started:
        holder = started.start("renew", "renew", "renew", 5, IDLE_MS, "hold.ms=20000")
        holder.wait_until_it_has(5)
        others = started.start("renew", "renew", "accept", 5, 12_000).wait()  # the first lock ends meanwhile
        assert len(holder.wait()) == 5
    assert others == []


def test_records_of_aborted_transactions_are_not_delivered(bootstrap: str, tmp_path: Path) -> None:
    prepare(bootstrap, "committed", "committed", **{"share.isolation.level": "read_committed"})
    settings = {"bootstrap.servers": bootstrap, "transactional.id": "shares"}
    with Producer(settings) as producer:
        producer.init_transactions()
        for first, is_commit in ((0, True), (10, False), (20, True)):
            producer.begin_transaction()
            for value in range(first, first + 5):
                producer.send("committed", str(value).encode(), partition=0)
            if is_commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    with members(tmp_path, bootstrap) as started:
        found = started.start("committed", "committed", "accept", 10, IDLE_MS).wait()
    assert sorted(int(each.value) for each in found) == [*range(5), *range(20, 25)]
