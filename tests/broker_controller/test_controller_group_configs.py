"""Settings of groups, of clients' metrics, and of brokers under unknown names: what is kept and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import pytest

from broker.controller import configs
from broker.controller.broker_configs import UNKNOWN_MAX
from broker.controller.group_configs import GROUP_SETTINGS, HEARTBEAT_INTERVAL, KAFKA_BOUNDS, SESSION_TIMEOUT
from broker.controller.image import BROKER_RESOURCE, GROUP_RESOURCE
from broker.controller.setting_types import AlterConfigs, AlterConfigsResponse, AlteredConfig, ConfigChange
from broker.controller.snapshot import image_of, image_records
from broker.kafka_settings import kafka_settings
from broker.wire.errors import ErrorCode

sys.path.insert(0, str(Path(__file__).parent))
from controller_world import ControllerWorld, cluster

LOW = {"group.consumer.min.session.timeout.ms": 1_000, "group.consumer.min.heartbeat.interval.ms": 100}


def alter(
    world: ControllerWorld, kind: int, name: str, values: Mapping[str, str | None], *, replaces_all: bool = False
) -> AlteredConfig:
    return _altered(
        world, [ConfigChange(resource_type=kind, resource_name=name, changes=values, replaces_all=replaces_all)]
    )[0]


def _altered(world: ControllerWorld, changes: list[ConfigChange]) -> tuple[AlteredConfig, ...]:
    world.tokens += 1
    token = world.tokens
    world.handle(AlterConfigs(token=token, resources=tuple(changes)))
    answer = world.answers[token]
    assert isinstance(answer, AlterConfigsResponse)
    return answer.resources


def of_group(world: ControllerWorld, values: Mapping[str, str | None]) -> str | None:
    altered = alter(world, GROUP_RESOURCE, "g", values)
    assert altered.error_code == (ErrorCode.none if altered.error_message is None else ErrorCode.invalid_config)
    return altered.error_message


def test_the_table_is_that_of_kafka() -> None:
    known = kafka_settings("broker")
    for name, setting in GROUP_SETTINGS.items():
        assert setting.check.problem(name, setting.default) is None
        for key in (setting.low_key, setting.high_key):
            assert key is None or known[key].default == str(KAFKA_BOUNDS[key])
        assert setting.broker_key is None or known[setting.broker_key].default == setting.default


def test_settings_of_a_group_are_kept_and_outlive_a_snapshot() -> None:
    world = cluster(1)
    assert of_group(world, {SESSION_TIMEOUT: "50000", HEARTBEAT_INTERVAL: "6000"}) is None
    image = world.controller.image
    assert image.group_configs == {"g": {SESSION_TIMEOUT: "50000", HEARTBEAT_INTERVAL: "6000"}}
    restored = image_of(image_records(image), end_offset=image.offset + 1, epoch=image.epoch)
    assert restored == image
    assert of_group(world, {SESSION_TIMEOUT: None, HEARTBEAT_INTERVAL: None, "nonsense": None}) is None
    assert world.controller.image.group_configs == {}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nonsense": "1"}, "Unknown group config name: nonsense"),
        ({SESSION_TIMEOUT: "0"}, f"Invalid value 0 for configuration {SESSION_TIMEOUT}: Value must be at least 1"),
        (
            {SESSION_TIMEOUT: "44999"},
            f"{SESSION_TIMEOUT} must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            {SESSION_TIMEOUT: "60001"},
            f"{SESSION_TIMEOUT} must be less than or equal to group.consumer.max.session.timeout.ms",
        ),
        ({"streams.num.standby.replicas": "1"}, "Unknown group config name: streams.num.standby.replicas"),
    ],
)
def test_settings_of_a_group_are_refused_in_kafkas_words(values: dict[str, str | None], message: str) -> None:
    world = cluster(1)
    assert of_group(world, values) == message
    assert world.controller.image.group_configs == {}


def test_a_session_is_longer_than_what_is_between_two_heartbeats() -> None:
    world = ControllerWorld(group_values=LOW)
    world.lead()
    message = f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}"
    assert of_group(world, {SESSION_TIMEOUT: "5000"}) == message, "the broker's interval is 5000"
    assert of_group(world, {SESSION_TIMEOUT: "5000", HEARTBEAT_INTERVAL: "4999"}) is None
    assert of_group(world, {SESSION_TIMEOUT: "4999"}) == message
    assert of_group(world, {HEARTBEAT_INTERVAL: "5000"}) == message


def test_groups_need_a_name_and_are_bounded() -> None:
    world = cluster(1)
    values = {SESSION_TIMEOUT: "50000"}
    nameless = alter(world, GROUP_RESOURCE, "", values)
    assert (nameless.error_code, nameless.error_message) == (
        ErrorCode.invalid_request,
        "Default group resources are not allowed.",
    )
    with mock.patch.dict(configs._FREELY_NAMED, {GROUP_RESOURCE: (2, "")}):
        asked = [ConfigChange(resource_type=GROUP_RESOURCE, resource_name=name, changes=values) for name in "abc"]
        told = [altered.error_code for altered in _altered(world, asked)]
        assert told == [ErrorCode.none, ErrorCode.none, ErrorCode.policy_violation]
        assert alter(world, GROUP_RESOURCE, "a", values).error_code == ErrorCode.none, "it is one of the two"


def test_unknown_settings_of_a_broker_are_kept_up_to_a_bound() -> None:
    world = cluster(1)
    many: dict[str, str | None] = {f"nonsense.{number}": "1" for number in range(UNKNOWN_MAX)}
    assert alter(world, BROKER_RESOURCE, "1", many).error_code == ErrorCode.none
    assert world.controller.image.broker_configs["1"] == many
    assert alter(world, BROKER_RESOURCE, "1", {"one.more": "1"}).error_code == ErrorCode.policy_violation
    assert alter(world, BROKER_RESOURCE, "1", {"nonsense.1": "2", "nonsense.2": None}).error_code == ErrorCode.none
    assert alter(world, BROKER_RESOURCE, "1", {"log.cleaner.backoff.ms": "2"}).error_code == ErrorCode.none
