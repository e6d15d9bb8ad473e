"""CreatePartitions, ElectLeaders, AlterConfigs, moving leaders back: accepted, refused, written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from broker.controller.setting_types import (
    AlterConfigs,
    AlterConfigsResponse,
    AlteredConfig,
    ConfigChange,
)
from broker.controller.topic_types import (
    CreatePartitions,
    CreatePartitionsResponse,
    NewPartitions,
    TopicOutcome,
)
from broker.controller.types import ElectionOutcome, ElectLeaders, ElectLeadersResponse, Tick
from broker.wire.errors import ErrorCode

sys.path.insert(0, str(Path(__file__).parent))
from controller_world import SESSION_MS, ControllerWorld, cluster


def create_partitions(world: ControllerWorld, *topics: NewPartitions, dry: bool = False) -> tuple[TopicOutcome, ...]:
    request = CreatePartitions(token=world.token(), topics=topics, validate_only=dry)
    return world.ask(CreatePartitionsResponse, request).topics


def elect(world: ControllerWorld, *partitions: tuple[str, int], unclean: bool = False) -> tuple[ElectionOutcome, ...]:
    request = ElectLeaders(token=world.token(), unclean=unclean, partitions=partitions or None)
    return world.ask(ElectLeadersResponse, request).partitions


def alter(world: ControllerWorld, change: ConfigChange, *, dry: bool = False) -> AlteredConfig:
    request = AlterConfigs(token=world.token(), resources=(change,), validate_only=dry)
    return world.ask(AlterConfigsResponse, request).resources[0]


def topic_change(**fields: object) -> ConfigChange:
    return ConfigChange(**{"resource_type": 2, "resource_name": "t", "changes": {}, **fields})  # type: ignore[arg-type]


def test_partitions_are_added_with_the_replication_factor_of_the_topic() -> None:
    world = cluster(1, 2, 3)
    world.create(partitions=2, replication_factor=2)
    before = world.controller.image.topics["t"].partitions
    (answer,) = create_partitions(world, NewPartitions(topic="t", count=5))
    partitions = world.controller.image.topics["t"].partitions
    assert answer.error_code == 0
    assert (len(partitions), partitions[:2]) == (5, before)
    assert all(len(state.replicas) == 2 and state.leader == state.replicas[0] for state in partitions[2:])


def test_manual_additions_go_where_they_are_told() -> None:
    world = cluster(1, 2, 3)
    world.create(partitions=1, replication_factor=2)
    create_partitions(world, NewPartitions(topic="t", count=3, assignments=((3, 1), (2, 3))))
    assert [state.replicas for state in world.controller.image.topics["t"].partitions[1:]] == [(3, 1), (2, 3)]


@pytest.mark.parametrize(
    ("count", "assignments", "error_code"),
    [
        (2, None, 37),  # no increase
        (1, None, 37),
        (3, ((1, 2), (2, 3)), 39),  # two for one new partition
        (3, ((1, 1),), 39),
        (3, ((1,),), 39),  # another replication factor
        (3, ((1, 9),), 39),
        (20_000, None, 44),
    ],
)
def test_additions_that_are_refused(
    count: int, assignments: tuple[tuple[int, ...], ...] | None, error_code: int
) -> None:
    world = cluster(1, 2, 3)
    world.create(partitions=2, replication_factor=2)
    (answer,) = create_partitions(world, NewPartitions(topic="t", count=count, assignments=assignments))
    assert answer.error_code == error_code
    assert len(world.controller.image.topics["t"].partitions) == 2


def test_unknown_topic_twice_named_topic_and_dry_run_change_nothing() -> None:
    world = cluster(1)
    world.create(partitions=1, replication_factor=1)
    assert create_partitions(world, NewPartitions(topic="no", count=2))[0].error_code == 3
    twice = NewPartitions(topic="t", count=2)
    assert [each.error_code for each in create_partitions(world, twice, twice)] == [42]
    assert create_partitions(world, twice, dry=True)[0].error_code == 0
    assert len(world.controller.image.topics["t"].partitions) == 1


def test_the_preferred_leader_takes_over_again() -> None:
    world = cluster(1, 2, 3)
    world.create(assignments={0: (1, 2, 3)})
    world.kill(1)
    assert world.partition().leader == 2
    assert [each.error_code for each in elect(world, ("t", 0))] == [80]  # not in sync: PREFERRED_LEADER_NOT_AVAILABLE
    world.restart(1)
    world.catch_up_all()
    epoch = world.partition().leader_epoch
    assert [each.error_code for each in elect(world, ("t", 0))] == [0]
    assert (world.partition().leader, world.partition().leader_epoch) == (1, epoch + 1)
    assert [each.error_code for each in elect(world, ("t", 0), ("t", 1), ("x", 0))] == [84, 3, 3]
    assert elect(world) == ()  # asked for all, it tells of those only where something was to do


def test_unclean_election_needs_a_partition_without_leader_and_a_live_replica() -> None:
    world = cluster(1, 2)
    world.create(assignments={0: (1, 2)})
    world.kill(2)
    assert [each.error_code for each in elect(world, ("t", 0), unclean=True)] == [84]
    world.join(2)
    world.kill(1)  # the only member of the ISR
    assert world.partition().leader == -1
    assert [each.error_code for each in elect(world, ("t", 0), unclean=True)] == [0]
    assert (world.partition().leader, world.partition().isr) == (2, (2,))


def test_leaders_move_back_by_themselves_when_told_to() -> None:
    world = cluster(1, 2, leader_imbalance_check_interval_ms=10 * SESSION_MS)
    world.create(assignments={0: (1, 2)})
    world.kill(1)
    world.restart(1)
    world.catch_up_all()
    assert world.partition().leader == 2
    world.pass_time(12 * SESSION_MS, alive=(1, 2))
    assert world.partition().leader == 1
    still = cluster(1, 2, auto_leader_rebalance_enable=False)
    assert still.controller.next_deadline_ms() is not None  # of the sessions alone
    still.handle(Tick())


def test_list_settings_are_appended_to_and_subtracted_from() -> None:
    world = cluster(1)
    world.create(partitions=1, replication_factor=1)
    assert alter(world, topic_change(appends={"cleanup.policy": "compact"})).error_code == 0
    assert world.controller.image.topic_configs["t"] == {"cleanup.policy": "delete,compact"}
    assert alter(world, topic_change(subtracts={"cleanup.policy": "delete"})).error_code == 0
    assert world.controller.image.topic_configs["t"] == {"cleanup.policy": "compact"}
    refused = alter(world, topic_change(appends={"retention.ms": "5"}))
    assert (refused.error_code, refused.error_message) == (
        40,
        "Can't APPEND to key retention.ms because its type is not LIST.",
    )


def test_a_value_that_a_record_cannot_hold_is_refused_as_by_kafka() -> None:
    world = cluster(1)
    key = "cordoned.log.dirs"

    def appended(first: int) -> AlteredConfig:
        directories = ",".join(f"/{each}/" for each in range(first, first + 3_000))
        return alter(world, ConfigChange(resource_type=4, resource_name="1", changes={}, appends={key: directories}))

    assert appended(10_000).error_code == 0
    before = world.controller.image.broker_configs["1"]
    answer = appended(20_000)
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.invalid_config,
        "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
    )
    assert world.controller.image.broker_configs["1"] == before


@pytest.mark.parametrize(
    ("appended", "value"),
    [("", None), (",compact", None), (",", "delete"), ("compact,", "delete,compact"), (" compact", "delete, compact")],
)
def test_what_is_appended_is_split_as_by_kafka(appended: str, value: str | None) -> None:
    """Java's split drops empty parts at the end only, unless the text is empty. Kafka strips nothing here."""
    world = cluster(1)
    world.create(partitions=1, replication_factor=1)
    answer = alter(world, topic_change(appends={"cleanup.policy": appended}))
    assert answer.error_code == (ErrorCode.invalid_config if value is None else 0), answer.error_message
    assert world.controller.image.topic_configs.get("t", {}).get("cleanup.policy") == value


def test_replacing_all_removes_what_is_not_named_and_a_dry_run_writes_nothing() -> None:
    world = cluster(1)
    world.create(partitions=1, replication_factor=1, configs={"retention.ms": "1", "segment.ms": "5"})
    assert alter(world, topic_change(changes={"segment.ms": "7"}, replaces_all=True), dry=True).error_code == 0
    assert world.controller.image.topic_configs["t"] == {"retention.ms": "1", "segment.ms": "5"}
    alter(world, topic_change(changes={"segment.ms": "7"}, replaces_all=True))
    assert world.controller.image.topic_configs["t"] == {"segment.ms": "7"}


@pytest.mark.parametrize(
    ("name", "value", "part_of_message"),
    [
        ("remote.storage.enable", "true", "tiered storage"),
        ("segment.bytes", "10", "Value must be at least 1024"),
        ("compression.gzip.level", "0", "between 1 and 9 or equal to -1"),
        ("min.cleanable.dirty.ratio", "1.5", "no more than 1"),
        ("leader.replication.throttled.replicas", "*", "there are no replication throttles"),
        ("nonsense", "1", "Unknown topic config"),
    ],
)
def test_topic_settings_that_are_refused_say_why(name: str, value: str, part_of_message: str) -> None:
    world = cluster(1)
    world.create(partitions=1, replication_factor=1)
    answer = alter(world, topic_change(changes={name: value}))
    assert answer.error_code == 40
    assert part_of_message in (answer.error_message or "")


@pytest.mark.parametrize(
    ("resource_name", "changes", "error_code"),
    [
        ("absent", {"retention.ms": "x"}, ErrorCode.invalid_config),  # the value is judged before the topic
        ("absent", {"retention.ms": "1"}, ErrorCode.unknown_topic_or_partition),
        ("", {"retention.ms": "1"}, ErrorCode.invalid_request),
        ("bad/name", {"retention.ms": "1"}, ErrorCode.invalid_topic_exception),
        ("t", {"no.such.setting": None}, ErrorCode.none),  # what is not set can be deleted
    ],
)
def test_settings_are_judged_in_the_order_of_apache_kafka(
    resource_name: str, changes: dict[str, str | None], error_code: ErrorCode
) -> None:
    world = cluster(1)
    world.create(partitions=1, replication_factor=1)
    assert alter(world, topic_change(resource_name=resource_name, changes=changes)).error_code == error_code


def test_brokers_take_dynamic_settings_and_refuse_the_others_by_name() -> None:
    world = cluster(1)
    change = ConfigChange(resource_type=4, resource_name="", changes={"log.retention.ms": "1000"})
    assert alter(world, change).error_code == 0
    assert world.controller.image.broker_configs == {"": {"log.retention.ms": "1000", "min.insync.replicas": "1"}}
    refused = alter(world, ConfigChange(resource_type=4, resource_name="1", changes={"log.dirs": "/elsewhere"}))
    assert refused.error_code == ErrorCode.invalid_request
    assert refused.error_message == "Cannot update these configs dynamically: [log.dirs]"


def test_settings_of_a_listener_belong_to_one_broker() -> None:
    world = cluster(1)
    of_a_listener = "listener.name.external.ssl.keystore.location"
    for_all = alter(world, ConfigChange(resource_type=4, resource_name="", changes={of_a_listener: "x"}))
    assert (for_all.error_code, for_all.error_message) == (
        ErrorCode.invalid_request,
        f"Cannot update these configs at default cluster level, broker id must be specified: [{of_a_listener}]",
    )
    assert alter(world, ConfigChange(resource_type=4, resource_name="", changes={of_a_listener: None})).error_code == 0
    assert alter(world, ConfigChange(resource_type=4, resource_name="1", changes={of_a_listener: "x"})).error_code == 0


def test_settings_of_kerberos_are_refused_by_name() -> None:
    name = "sasl.kerberos.min.time.before.relogin"
    refused = alter(cluster(1), ConfigChange(resource_type=4, resource_name="1", changes={name: "58000"}))
    assert refused.error_message == f"Cannot update these configs dynamically: [{name}]"


def test_lists_of_brokers_can_be_added_to_and_taken_from() -> None:
    world, name = cluster(1), "log.cleanup.policy"

    def change(appends: dict[str, str], subtracts: dict[str, str]) -> str:
        asked = ConfigChange(resource_type=4, resource_name="1", changes={}, appends=appends, subtracts=subtracts)
        assert alter(world, asked).error_code == 0
        return world.controller.image.broker_configs["1"][name]

    assert change({name: "compact"}, {}) == "delete,compact"
    assert change({name: "compact"}, {}) == "delete,compact"
    assert change({}, {name: "delete"}) == "compact"


def test_a_broker_setting_that_is_not_set_is_removed_without_an_error_as_by_kafka() -> None:
    """kafka-reassign-partitions --verify removes throttles of every broker, whether there are any or not."""
    world = cluster(1)
    for name in ("leader.replication.throttled.rate", "log.dirs", "no.such.setting"):
        change = ConfigChange(resource_type=4, resource_name="1", changes={name: None})
        assert alter(world, change).error_code == 0
    assert world.controller.image.broker_configs == {"": {"min.insync.replicas": "1"}}
