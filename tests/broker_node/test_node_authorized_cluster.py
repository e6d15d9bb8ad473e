"""Three brokers and a client with a certificate, alice: what she may do is what the lists say, on every broker.

The brokers, and who comes without a certificate, are User:ANONYMOUS, a super user here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from cluster_helper import PATIENT
from security_helper import SecuredCluster, Wire, dial
from wire_helper import ask

from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.records import encode_batch
from tests.patience import wait_until

pytestmark = pytest.mark.slow
SETTINGS = {
    **PATIENT,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
TOPIC, GROUP, READ, WRITE, CREATE, DESCRIBE = 2, 3, 3, 4, 5, 8
DENIED = ErrorCode.topic_authorization_failed


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with SecuredCluster(tmp_path_factory.mktemp("authorized"), brokers=3, settings=SETTINGS) as running:
        running.wait_until_all_are_known()
        yield running


@pytest.fixture
def alice(cluster: SecuredCluster) -> Iterator[list[Wire]]:
    """A connection to each broker."""
    wires = [dial(cluster.ports[each]["MTLS"], cluster.client_context(with_certificate=True)) for each in cluster.ids]
    yield wires
    for wire in wires:
        wire.close()


def allow(cluster: SecuredCluster, name: str, operation: int, *, pattern: int = 3, kind: int = TOPIC) -> None:
    rule = {"resource_type": kind, "resource_name": name, "resource_pattern_type": pattern, "principal": "User:alice",
            "host": "*", "operation": operation, "permission_type": 3}  # fmt: skip
    (made,) = ask(cluster.ports[1]["DIRECT"], ApiKey.CREATE_ACLS, 3, creations=[rule]).results
    assert made.error_code is ErrorCode.none


def revoke(cluster: SecuredCluster, name: str) -> None:
    chosen = {"resource_type_filter": TOPIC, "resource_name_filter": name, "pattern_type_filter": 1, "operation": 1,
              "principal_filter": "User:alice", "host_filter": None, "permission_type": 1}  # fmt: skip
    (gone,) = ask(cluster.ports[1]["DIRECT"], ApiKey.DELETE_ACLS, 3, filters=[chosen]).filter_results
    assert gone.matching_acls


def create(wire: Wire, *names: str) -> dict[str, ErrorCode]:
    topics = [
        {"name": name, "num_partitions": 1, "replication_factor": 3, "assignments": [], "configs": []} for name in names
    ]
    answer = wire.ask(ApiKey.CREATE_TOPICS, 7, topics=topics, timeout=30_000, validate_only=False)
    return {topic.name: topic.error_code for topic in answer.topics}


def seen(wire: Wire, names: list[str] | None, *, makes: bool = False) -> dict[str, ErrorCode]:
    topics = None if names is None else [{"topic_id": None, "name": name} for name in names]
    answer = wire.ask(ApiKey.METADATA, 12, topics=topics, allow_auto_topic_creation=makes)
    return {topic.name: topic.error_code for topic in answer.topics}


def produce(wire: Wire, topic: str, value: bytes = b"v") -> Any:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": encode_batch([value], timestamps_ms=1)}]}]
    answer = wire.ask(ApiKey.PRODUCE, 9, transactional_id=None, acks=-1, timeout=30_000, topic_data=data)
    return answer, answer.responses[0].partition_responses[0].error_code


def test_a_request_that_goes_on_to_the_controller_is_judged_where_it_came_in(
    cluster: SecuredCluster, alice: list[Wire]
) -> None:
    assert create(alice[0], "made-1", "other-1") == {"made-1": DENIED, "other-1": DENIED}
    allow(cluster, "made-", CREATE, pattern=4)
    for number, wire in enumerate(alice, start=2):
        ours, other = f"made-{number}", f"other-{number}"
        wait_until(lambda wire=wire, ours=ours: create(wire, ours)[ours] is not DENIED, "the list counts here too")
        assert create(wire, f"{ours}-b", other) == {f"{ours}-b": ErrorCode.none, other: DENIED}


def test_topics_are_hidden_and_made_by_those_who_may(cluster: SecuredCluster, alice: list[Wire]) -> None:
    nobody = dial(cluster.ports[1]["DIRECT"])
    assert create(nobody, "hidden") == {"hidden": ErrorCode.none}
    nobody.close()
    wire = alice[0]
    assert seen(wire, ["hidden", "nowhere"]) == {"hidden": DENIED, "nowhere": DENIED}
    assert "hidden" not in seen(wire, None)
    allow(cluster, "auto", DESCRIBE)
    assert seen(wire, ["auto"], makes=True) == {"auto": DENIED}
    allow(cluster, "auto", CREATE)
    assert seen(wire, ["auto"], makes=True) == {"auto": ErrorCode.none}


def test_a_right_that_is_given_back_counts_and_one_that_is_revoked_does_not(
    cluster: SecuredCluster, alice: list[Wire]
) -> None:
    nobody = dial(cluster.ports[1]["DIRECT"])
    create(nobody, "wanted")

    def leader() -> int:
        """0: none yet."""
        named = [{"topic_id": None, "name": "wanted"}]
        answer = nobody.ask(ApiKey.METADATA, 12, topics=named, allow_auto_topic_creation=False)
        return max(0, *(each.leader_id for each in answer.topics[0].partitions), 0)

    wire = alice[cluster.ids.index(wait_until(leader, "a leader"))]
    nobody.close()
    assert produce(wire, "wanted")[1] is DENIED
    for _ in range(2):
        allow(cluster, "wanted", WRITE)
        wait_until(lambda: produce(wire, "wanted")[1] is ErrorCode.none, "she may write")
        revoke(cluster, "wanted")
        wait_until(lambda: produce(wire, "wanted")[1] is DENIED, "she may not write any more")
    allow(cluster, "wanted", WRITE)
    wait_until(lambda: produce(wire, "wanted")[1] is ErrorCode.none, "she may write")


def test_a_pattern_of_topics_finds_only_those_that_she_may_describe(cluster: SecuredCluster, alice: list[Wire]) -> None:
    nobody = dial(cluster.ports[1]["DIRECT"])
    create(nobody, "pattern-seen", "pattern-hidden")
    nobody.close()
    allow(cluster, "pattern-seen", DESCRIBE)
    allow(cluster, "pattern", READ, kind=GROUP)

    def found(member: str) -> set[int]:
        """Topics that a member is given, as positions in `names`; asked of the coordinator, whoever that is."""
        answers = [
            wire.ask(
                ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group_id="pattern", member_id=member, member_epoch=0,
                instance_id=None, rack_id=None, rebalance_timeout=60_000, subscribed_topic_names=None,
                subscribed_topic_regex="pattern-.*", server_assignor=None, topic_partitions=[],
            ) for wire in alice
        ]  # fmt: skip
        given = [each.assignment for each in answers if each.error_code is ErrorCode.none]
        return {ids.get(each.topic_id, -1) for assignment in given for each in assignment.topic_partitions}

    def leave(member: str) -> None:
        for wire in alice:
            wire.ask(
                ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group_id="pattern", member_id=member, member_epoch=-1,
                instance_id=None, rack_id=None, rebalance_timeout=-1, subscribed_topic_names=None,
                subscribed_topic_regex=None, server_assignor=None, topic_partitions=None,
            )  # fmt: skip

    def coordinator_is_there() -> bool:
        answer = alice[0].ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["pattern"])
        return answer.coordinators[0].error_code is ErrorCode.none

    wait_until(coordinator_is_there, "the coordinator")
    names = ["pattern-seen", "pattern-hidden"]
    listed = ask(cluster.ports[1]["DIRECT"], ApiKey.METADATA, 12, topics=None, allow_auto_topic_creation=False)
    by_name = {topic.name: topic.topic_id for topic in listed.topics}
    ids = {by_name[name]: position for position, name in enumerate(names)}
    wait_until(lambda: found("m") == {0}, "the topic that she may describe, alone")
    allow(cluster, "pattern-hidden", DESCRIBE)
    leave("m")  # the answer of the pattern goes with its last member
    wait_until(lambda: found("n") == {0, 1}, "both, for a new member")


def test_what_is_denied_is_in_the_log_of_the_broker_that_denied_it(cluster: SecuredCluster, alice: list[Wire]) -> None:
    assert produce(alice[0], "no-right")[1] is DENIED
    log = (cluster.directory / f"stderr-{cluster.ids[0]}.log").read_text()
    assert (
        "kafka.authorizer.logger: Principal = User:alice is Denied operation = WRITE from host = 127.0.0.1 "
        "on resource = Topic:LITERAL:no-right for request = Produce with resourceRefCount = 1 based on rule DefaultDeny"
    ) in log
