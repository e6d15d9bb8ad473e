"""What only the broker itself can judge of its settings is judged by it, as in Apache Kafka: one resource at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from cluster_helper import Cluster
from wire_helper import ask

from broker.controller.image import BROKER_RESOURCE, TOPIC_RESOURCE
from broker.node.handlers.config_answers import APPEND, DELETE, SET, SUBTRACT
from broker.node.handlers.own_settings import after_changes
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from tests.patience import wait_until

CORDONED = "cordoned.log.dirs"
Resource = dict[str, Any]
Request = tuple[ApiKey, int, list[Resource]]


@dataclass(frozen=True)
class Side:
    """One broker, number 1, with the log directories A and B. Values may name them."""

    port: int
    directories: dict[str, str]

    def answered(self, request: Request) -> list[tuple[str, str, str | None]]:
        """For each resource of the answer, in order: its name, the error and the message."""
        key, version, resources = request
        told = ask(self.port, key, version, resources=[self._named(each) for each in resources], validate_only=False)
        return [
            (each.resource_name, each.error_code.name, self._without_paths(each.error_message))
            for each in told.responses
        ]

    def cordoned(self) -> str:
        resource = {"resource_type": BROKER_RESOURCE, "resource_name": "1", "configuration_keys": [CORDONED]}
        (result,) = ask(self.port, ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource]).results
        (setting,) = result.configs
        return self._without_paths(setting.value) or ""

    def _named(self, resource: Resource) -> Resource:
        return {**resource, "configs": [{**each, "value": self._path(each["value"])} for each in resource["configs"]]}

    def _path(self, value: str | None) -> str | None:
        return value and ",".join(self.directories.get(word, word) for word in value.split(","))

    def _without_paths(self, text: str | None) -> str | None:
        for name, path in self.directories.items():
            text = text and re.sub(re.escape(path) + r"(?![\w-])", name, text)
        return text


def incrementally(*changes: tuple[int, str | None], broker: str = "1") -> Resource:
    configs = [{"name": CORDONED, "config_operation": operation, "value": value} for operation, value in changes]
    return {"resource_type": BROKER_RESOURCE, "resource_name": broker, "configs": configs}


def wholly(value: str, broker: str = "1") -> Resource:
    return {
        "resource_type": BROKER_RESOURCE, "resource_name": broker, "configs": [{"name": CORDONED, "value": value}],
    }  # fmt: skip


def increment(*resources: Resource) -> Request:
    return ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, list(resources)


def replace(*resources: Resource) -> Request:
    return ApiKey.ALTER_CONFIGS, 2, list(resources)


TOPIC: Resource = {
    "resource_type": TOPIC_RESOURCE,
    "resource_name": "t",
    "configs": [{"name": "retention.ms", "config_operation": SET, "value": "9000"}],
}
# (request, what is cordoned afterwards)
TRIED: tuple[tuple[Request, str], ...] = (
    (increment(incrementally((SET, "/nowhere"))), ""),
    (replace(wholly("/nowhere")), ""),
    (replace(wholly("*,A")), ""),
    (increment(incrementally((APPEND, "/nowhere"))), ""),
    (increment(incrementally((APPEND, "A"))), "A"),
    (increment(incrementally((APPEND, "*"))), "A"),
    (increment(incrementally((APPEND, "/nowhere"))), "A"),
    (increment(incrementally((APPEND, "A,B"))), "A,B"),
    (increment(incrementally((SUBTRACT, "A"))), "B"),
    (increment(incrementally((SUBTRACT, "/nowhere"))), "B"),
    (increment(incrementally((SET, "A"), (APPEND, "B"))), "B"),
    (increment(incrementally((SET, "A"), broker="2")), "B"),
    (increment(incrementally((SET, "A"), broker="one")), "B"),
    (replace(wholly("A", broker="2")), "B"),
    (replace(wholly("A", broker="one")), "B"),
    (increment(incrementally((SET, "/nowhere")), TOPIC), "B"),
    (increment(TOPIC, incrementally((SET, "/nowhere")), incrementally((SET, "A"), broker="7")), "B"),
    (increment(incrementally((SET, "A")), incrementally((SET, "A"))), "B"),
    (increment(TOPIC, incrementally((SET, "A"))), "A"),
    (replace(wholly("*")), "*"),
    (increment(incrementally((APPEND, "A"))), "*"),
    (increment(incrementally((DELETE, None))), ""),
)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    with Cluster(tmp_path_factory.mktemp("ours"), brokers=1, directories=2) as cluster:
        cluster.wait_until_all_are_known()
        first, second = map(str, cluster.log_dirs(1))
        yield Side(cluster.ports[1]["DIRECT"], {"A": first, "B": second})


@pytest.mark.slow
def test_every_operation_is_checked_by_what_it_would_leave(ours: Side) -> None:
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    ask(ours.port, ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=10_000, validate_only=False)
    for request, cordoned in TRIED:
        ours.answered(request)  # a broker hears of it after the controller has answered
        wait_until(lambda cordoned=cordoned: ours.cordoned() == cordoned, f"it tells {cordoned or 'nothing'}")  # type: ignore[misc]
    told = ours.answered(increment(TOPIC, incrementally((SET, "/nowhere")), incrementally((SET, "A"), broker="7")))
    assert told == [
        ("t", ErrorCode.none.name, None),
        (
            "1",
            ErrorCode.invalid_request.name,
            "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
            "Missing entries : /nowhere",
        ),
        ("7", ErrorCode.invalid_request.name, "Unexpected broker id, expected 1, but received 7"),
    ]


@pytest.mark.slow
def test_a_broker_that_is_named_twice_is_refused_without_a_look_at_its_settings(ours: Side) -> None:
    """Apache Kafka 4.3.1 gives no answer to this."""
    cause = "Each resource must appear at most once."
    told = ours.answered(replace(wholly("A"), wholly("/nowhere")))
    assert told == [("1", ErrorCode.invalid_request.name, cause)] * 2


def test_lists_change_as_the_controller_will_change_them() -> None:
    assert after_changes({CORDONED: "a, b"}, [(APPEND, CORDONED, "b,c")]) == {CORDONED: "a,b,c"}
    assert after_changes({CORDONED: "a,b"}, [(SUBTRACT, CORDONED, "a,x")]) == {CORDONED: "b"}
    assert after_changes({CORDONED: "a", "x": "1"}, [(DELETE, CORDONED, None)]) == {"x": "1"}
    assert after_changes({}, [(APPEND, "log.cleanup.policy", "compact")]) == {"log.cleanup.policy": "delete,compact"}
