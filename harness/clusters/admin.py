"""Topics and settings of a cluster, by plain requests to its brokers: create, delete, read back.

Every call goes to broker after broker until one gives an answer, and ends within its bound. Topics are deleted by id
alone: a name may meanwhile belong to somebody else's topic. own_topics.py keeps the ids of what was made.
Shown by tests/harness/test_harness_admin.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from broker.wire.apis import ApiKey
from broker.wire.errors import error_name
from harness.clusters.base import Address
from harness.clusters.metadata import BrokerProbe
from harness.errors import CellError

_ANSWER_TIMEOUT_S: Final = 40.0
REQUEST_TIMEOUT_MS: Final = 10_000
_TOPIC_EXISTS: Final = 36
_REQUEST_TIMED_OUT: Final = 7
_UNKNOWN_TOPIC_ID: Final = 100
_NO_ID: Final = UUID(int=0)  # what a broker without topic ids answers
# The broker asked is no controller, or there is none yet, or it does not know all brokers yet: ask again.
TRY_AGAIN: Final = frozenset({5, 7, 14, 15, 16, 38, 41, 89})
RESOURCE_TOPIC: Final = 2
_FROM_TOPIC: Final = 1  # config_source of DescribeConfigs: a setting of the topic itself
_RESOURCE_BROKER: Final = 4


class TopicNotCreated(CellError):
    """`may_exist`: some broker did not answer, and may have carried out what it was asked."""

    def __init__(self, message: str, *, may_exist: bool) -> None:
        super().__init__(message)
        self.may_exist = may_exist


class Admin:
    """Asks the brokers at `addresses`, which are reached without any proxy."""

    def __init__(
        self, addresses: Callable[[], Iterable[Address]], *, should_stop: Callable[[], bool] = lambda: False
    ) -> None:
        self._addresses, self._should_stop = addresses, should_stop

    def create_topic(
        self, name: str, *, partitions: int, replication_factor: int, config: Mapping[str, str]
    ) -> str | None:
        """The new topic's id; None where the brokers have none. TopicNotCreated with the broker's words when it refuses
        or nobody answers in 40 s. An existing topic is an error, and is not touched."""
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": replication_factor,
            "assignments": (),
            "configs": [{"name": key, "value": value} for key, value in config.items()],
        }
        was_there = self.topic_id(name) is not None
        last = "no broker answered"
        unsure = False  # a request without an answer, or one that timed out at the broker, may have been carried out
        for result in self._creations(topic):
            if result is None:
                unsure = True
                continue
            code = int(result.error_code)
            if code == 0:
                topic_id = getattr(result, "topic_id", None) or _NO_ID
                return str(topic_id) if topic_id != _NO_ID else self.topic_id(name)
            if code == _TOPIC_EXISTS and unsure and not was_there:
                return self.topic_id(name)  # made by our own earlier request
            unsure = unsure or code == _REQUEST_TIMED_OUT
            last = f"{error_name(code)}: {result.error_message or 'no further word'}"
            if code == _TOPIC_EXISTS:
                raise TopicNotCreated(
                    f"topic {name} is there already, made by somebody else: it is neither used nor deleted",
                    may_exist=False,
                )
            if code not in TRY_AGAIN:
                break
        raise TopicNotCreated(
            f"topic {name} with {partitions} partitions x {replication_factor} could not be created: {last}",
            may_exist=unsure,
        )

    def delete_topic(self, topic_id: str) -> bool:
        """True when it is gone or was never there. By its id, so a later topic of the same name stays."""
        wanted = {"name": None, "topic_id": UUID(topic_id)}
        for response in self.answers(ApiKey.DELETE_TOPICS, topics=(wanted,), timeout=REQUEST_TIMEOUT_MS):
            if response is None or len(response.responses) != 1:
                continue
            code = int(response.responses[0].error_code)
            if code in (0, _UNKNOWN_TOPIC_ID):
                return True
            if code not in TRY_AGAIN:
                return False
        return False

    def topic_id(self, name: str) -> str | None:
        """As the first broker that answers tells it; None when it knows no such topic, or nobody answers."""
        for address in self._addresses():
            probe = BrokerProbe(address, timeout_s=REQUEST_TIMEOUT_MS / 1000 + 1)
            try:
                has_answered, topic_id = probe.topic_id(name)
            finally:
                probe.close()
            if has_answered:
                return topic_id
        return None

    def topic_config(self, name: str) -> dict[str, str]:
        """The topic's effective settings as a broker gives them; empty when nobody answers."""
        return self._config(RESOURCE_TOPIC, name, None)

    def own_topic_config(self, name: str) -> dict[str, str]:
        """What is set on the topic itself, without what it has from the brokers."""
        return self._config(RESOURCE_TOPIC, name, None, source=_FROM_TOPIC)

    def broker_config(self, broker_id: int, address: Address) -> dict[str, str]:
        """A broker answers for itself only."""
        return self._config(_RESOURCE_BROKER, str(broker_id), address)

    def _config(
        self, resource_type: int, name: str, address: Address | None, *, source: int | None = None
    ) -> dict[str, str]:
        resource = {"resource_type": resource_type, "resource_name": name, "configuration_keys": None}
        for candidate in self._addresses() if address is None else (address,):
            response = _ask(candidate, ApiKey.DESCRIBE_CONFIGS, {"resources": (resource,), "include_synonyms": False})
            if response is not None and response.results and int(response.results[0].error_code) == 0:
                return {
                    str(entry.name): str(entry.value)
                    for entry in response.results[0].configs
                    if entry.value is not None
                    and not entry.is_sensitive
                    and (source is None or int(entry.config_source) == source)
                }
        return {}

    def answers(self, api_key: ApiKey, **values: object) -> Iterable[Any]:
        """One answer after the other, from all brokers in turn, until the bound."""
        return self._of_each(lambda probe: probe.call(api_key, **values))

    def _creations(self, topic: Mapping[str, object]) -> Iterable[Any]:
        """The brokers' answers for the one topic."""
        return self._of_each(lambda probe: probe.create_topic(topic, REQUEST_TIMEOUT_MS))

    def _of_each(self, ask: Callable[[BrokerProbe], Any]) -> Iterable[Any]:
        deadline = time.monotonic() + _ANSWER_TIMEOUT_S
        while time.monotonic() < deadline and not self._should_stop():
            for address in self._addresses():
                yield _asked(address, ask)
            time.sleep(0.1)


def _ask(address: Address, api_key: ApiKey, values: Mapping[str, object]) -> Any:
    return _asked(address, lambda probe: probe.call(api_key, **values))


def _asked(address: Address, ask: Callable[[BrokerProbe], Any]) -> Any:
    probe = BrokerProbe(address, timeout_s=REQUEST_TIMEOUT_MS / 1000 + 1)
    try:
        return ask(probe)
    finally:
        probe.close()
