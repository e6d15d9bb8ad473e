"""The log directories of a broker by plain admin requests, as an operator drains one: cordon it, and move replicas.

Only replicas of topics that the run has made are moved. Implements `chaos.ports.topics.LogDirectories`. A broker
answers for itself. Every call but `failed` raises CellError with the broker's words if it is refused.
Shown by tests/harness/test_harness_log_directories.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from broker.door.clients import KafkaError, TopicPartition
from broker.door.questions import Question, Result, changed_settings, log_directories, moved_logs
from chaos.ports.topics import LogDirectory
from harness.clusters.base import Address
from harness.clusters.requests.admin import Admin
from harness.clusters.requests.probe import BrokerProbe
from harness.errors import CellError

CORDONED: Final = "cordoned.log.dirs"
ALL: Final = "*"  # its value if every log directory is cordoned
_ANSWER_TIMEOUT_S: Final = 10.0
_MOVED_WITHIN_S: Final = 120.0  # a whole log is copied
_KNOWN_WITHIN_S: Final = 30.0
_POLL_S: Final = 0.1


class BrokerDirectories:
    def __init__(self, address_of: Callable[[int], Address | None], require_own: Callable[[str], None]) -> None:
        """`address_of`: where a broker can be asked without any proxy; None while it cannot. `require_own` raises
        CellError for a topic that the run has not made."""
        self._address_of, self._require_own = address_of, require_own

    def of_broker(self, broker_id: int, topic: str) -> dict[str, LogDirectory]:
        return {
            path: LogDirectory(
                partitions=_of_topic(topic, [key for key, log in found.replicas.items() if not log.is_future]),
                arriving=_of_topic(topic, [key for key, log in found.replicas.items() if log.is_future]),
                is_cordoned=found.is_cordoned,
            )
            for path, found in self._ask(broker_id, "its log directories", log_directories()).items()
            if found.error is None
        }

    def failed(self, broker_id: int) -> frozenset[Path]:
        address = self._address_of(broker_id)
        if address is None:
            return frozenset()
        with BrokerProbe(address, timeout_s=_ANSWER_TIMEOUT_S) as probe:
            return probe.failed_log_directories()

    def cordoned(self, broker_id: int) -> str:
        address = self._address(broker_id)
        told = Admin(lambda: [address]).broker_config(broker_id, address)
        if CORDONED not in told:
            raise CellError(f"broker {broker_id} has no setting {CORDONED}: Apache Kafka has it since 4.3")
        return told[CORDONED]

    def cordon(self, broker_id: int, value: str) -> None:
        change = (
            changed_settings("broker", str(broker_id), set_={CORDONED: value})
            if value
            else changed_settings("broker", str(broker_id), delete=[CORDONED])
        )
        address = self._address(broker_id)
        what = f"{CORDONED} of broker {broker_id} could not be set to {value!r}"
        Admin(lambda: [address]).change(what, change)
        # The controller answers. The broker acts by its old value until it has read the metadata log. Apache Kafka
        # tells the new setting first, and then its log manager acts by it (DynamicBrokerConfig.updateCurrentConfig).
        deadline = time.monotonic() + _KNOWN_WITHIN_S
        while (told := self.cordoned(broker_id)) != value or not self._acts_by(broker_id, value):
            if time.monotonic() > deadline:
                raise CellError(f"{what}: the broker tells {told!r} after {_KNOWN_WITHIN_S:.0f} s")
            time.sleep(_POLL_S)

    def _acts_by(self, broker_id: int, value: str) -> bool:
        """Whether the directories that the setting names are cordoned, or none if it names none."""
        named = set(filter(None, value.split(",")))
        return all(
            found.is_cordoned if path in named or ALL in named else bool(named) or not found.is_cordoned
            for path, found in self._ask(broker_id, "its log directories", log_directories()).items()
            if found.error is None
        )

    def move(self, broker_id: int, topic: str, paths: Mapping[int, str]) -> None:
        self._begin(broker_id, topic, paths)
        deadline = time.monotonic() + _MOVED_WITHIN_S
        while not self._are_there(broker_id, topic, paths):
            if time.monotonic() > deadline:
                raise CellError(
                    f"the logs of {topic} on broker {broker_id} were not in {sorted(set(paths.values()))} within "
                    f"{_MOVED_WITHIN_S:.0f} s"
                )
            time.sleep(_POLL_S)

    def stay(self, broker_id: int, topic: str) -> None:
        found = self.of_broker(broker_id, topic)
        arriving = frozenset[int]().union(*(each.arriving for each in found.values()))
        back = {index: path for path, each in found.items() for index in each.partitions & arriving}
        if back:
            self._begin(broker_id, topic, back)

    def _begin(self, broker_id: int, topic: str, paths: Mapping[int, str]) -> None:
        self._require_own(topic)
        wanted = {TopicPartition(topic, index): path for index, path in paths.items()}
        for error in self._ask(broker_id, f"to move logs of {topic}", moved_logs(wanted)).values():
            if error is not None:
                raise CellError(f"broker {broker_id} does not move a log of {topic}: {error}")

    def _are_there(self, broker_id: int, topic: str, paths: Mapping[int, str]) -> bool:
        with suppress(CellError):
            now = self.of_broker(broker_id, topic)
            return all(
                (index in each.partitions) == (path == wanted) and index not in each.arriving
                for index, wanted in paths.items()
                for path, each in now.items()
            )
        return False

    def _ask(self, broker_id: int, what: str, question: Question[Result]) -> Result:
        with BrokerProbe(self._address(broker_id), timeout_s=_ANSWER_TIMEOUT_S) as probe:
            try:
                return probe.ask(question)
            except KafkaError as error:
                raise CellError(f"broker {broker_id} was asked for {what}: {error}") from error

    def _address(self, broker_id: int) -> Address:
        address = self._address_of(broker_id)
        if address is None:
            raise CellError(f"broker {broker_id} cannot be asked now")
        return address


def _of_topic(topic: str, partitions: list[TopicPartition]) -> frozenset[int]:
    return frozenset(index for name, index in partitions if name == topic)
