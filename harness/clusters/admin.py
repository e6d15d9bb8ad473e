"""Topics and settings of a cluster, by plain requests to its brokers: create, delete, read back.

Every call goes to broker after broker until one gives an answer, and ends within its bound.
Shown by tests/harness/test_harness_admin.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from broker.wire.apis import ApiKey
from broker.wire.errors import error_name
from harness.clusters.base import Address
from harness.clusters.metadata import BrokerProbe
from harness.errors import CellError

_ANSWER_TIMEOUT_S: Final = 40.0
REQUEST_TIMEOUT_MS: Final = 10_000
_TOPIC_EXISTS: Final = 36
_REQUEST_TIMED_OUT: Final = 7
_UNKNOWN_TOPIC: Final = 3
# The broker asked is no controller, or there is none yet, or it does not know all brokers yet: ask again.
TRY_AGAIN: Final = frozenset({5, 7, 14, 15, 16, 38, 41, 89})
RESOURCE_TOPIC: Final = 2
_FROM_TOPIC: Final = 1  # config_source of DescribeConfigs: a setting of the topic itself
_RESOURCE_BROKER: Final = 4


class Admin:
    """Asks the brokers at `addresses`, which are reached without any proxy."""

    def __init__(
        self, addresses: Callable[[], Iterable[Address]], *, should_stop: Callable[[], bool] = lambda: False
    ) -> None:
        self._addresses, self._should_stop = addresses, should_stop

    def create_topic(self, name: str, *, partitions: int, replication_factor: int, config: Mapping[str, str]) -> None:
        """CellError with the broker's words when it refuses or nobody answers in 40 s. An existing topic is an
        error."""
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": replication_factor,
            "assignments": (),
            "configs": [{"name": key, "value": value} for key, value in config.items()],
        }
        last = "no broker answered"
        unsure = False  # a request without an answer, or one that timed out at the broker, may have been carried out
        for response in self.answers(ApiKey.CREATE_TOPICS, topics=(topic,), timeout=REQUEST_TIMEOUT_MS):
            if response is None:
                unsure = True
                continue
            result = response.topics[0]
            code = int(result.error_code)
            if code == 0:
                return
            if code == _TOPIC_EXISTS and unsure:
                return
            unsure = unsure or code == _REQUEST_TIMED_OUT
            last = f"{error_name(code)}: {result.error_message or 'no further word'}"
            if code not in TRY_AGAIN:
                break
        raise CellError(
            f"topic {name} with {partitions} partitions x {replication_factor} could not be created: {last}"
        )

    def delete_topic(self, name: str) -> bool:
        """True when it is gone or was never there; a failure to delete matters to nobody but the disk."""
        for response in self.answers(ApiKey.DELETE_TOPICS, topic_names=(name,), timeout=REQUEST_TIMEOUT_MS):
            if response is None:
                continue
            code = int(response.responses[0].error_code)
            if code in (0, _UNKNOWN_TOPIC):
                return True
            if code not in TRY_AGAIN:
                return False
        return False

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
        deadline = time.monotonic() + _ANSWER_TIMEOUT_S
        while time.monotonic() < deadline and not self._should_stop():
            for address in self._addresses():
                yield _ask(address, api_key, values)
            time.sleep(0.1)


def _ask(address: Address, api_key: ApiKey, values: Mapping[str, object]) -> Any:
    probe = BrokerProbe(address, timeout_s=REQUEST_TIMEOUT_MS / 1000 + 1)
    try:
        return probe.call(api_key, **values)
    finally:
        probe.close()
