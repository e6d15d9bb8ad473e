"""Topics and settings of a cluster, by plain requests to its brokers: create, delete, read back.

Every call asks one broker after another until one answers, and ends within its time limit. Topics are deleted only by
id, because a name may belong to somebody else's topic by then. own_topics.py keeps the ids. Shown by
tests/harness/test_harness_admin.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from broker.door.clients import KafkaError, NewTopic
from broker.door.protocol import ErrorCode
from broker.door.questions import Question, Result, created_topics, deleted_topic_by_id, settings_of
from harness.clusters.base import Address
from harness.clusters.requests.probe import BrokerProbe, first_answer, is_answer
from harness.errors import CellError

_ANSWER_TIMEOUT_S: Final = 40.0
REQUEST_TIMEOUT_MS: Final = 10_000
# The broker is not the controller, there is no controller yet, or it does not know all brokers yet. Ask again.
TRY_AGAIN: Final = frozenset({5, 7, 14, 15, 16, 38, 41, 89})


class TopicNotCreated(CellError):
    """`may_exist`: some broker did not answer, and may have created the topic."""

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
        """The new topic's id; None if the brokers have no topic ids. TopicNotCreated with the broker's words if it
        refuses or nobody answers in 40 s. An existing topic is an error and is not touched."""
        topic = NewTopic(name, partitions, replication_factor, config)
        was_there = self.topic_id(name) is not None
        last = "no broker answered"
        unsure = False  # a request without an answer, or one that timed out at the broker, may have been carried out
        for answer in self.answers(created_topics([topic], REQUEST_TIMEOUT_MS)):
            if not isinstance(answer, KafkaError):
                return answer.get(name) or self.topic_id(name)
            if not is_answer(answer):
                unsure = unsure or not answer.definite
                continue
            if answer.code == ErrorCode.topic_already_exists:
                if unsure and not was_there:
                    return self.topic_id(name)  # created by our own earlier request
                raise TopicNotCreated(
                    f"topic {name} is there already, made by somebody else: it is neither used nor deleted",
                    may_exist=False,
                )
            unsure = unsure or answer.code == ErrorCode.request_timed_out
            last = str(answer)
            if answer.code not in TRY_AGAIN:
                break
        raise TopicNotCreated(
            f"topic {name} with {partitions} partitions x {replication_factor} could not be created: {last}",
            may_exist=unsure,
        )

    def refusal_of_topic(self, name: str, partitions: int, replication_factor: int, config: Mapping[str, str]) -> str:
        """Why a broker would not make a topic of this name, in its words; empty if it would. Nothing is made."""
        last = "no broker answered"
        question = created_topics(
            [NewTopic(name, partitions, replication_factor, config)], REQUEST_TIMEOUT_MS, validate_only=True
        )
        for answer in self.answers(question):
            if not isinstance(answer, KafkaError):
                return ""
            last = str(answer)
            if is_answer(answer) and answer.code not in TRY_AGAIN:
                break
        return last

    def delete_topic(self, topic_id: str) -> bool:
        """True when it is gone or was never there. By its id, so a later topic of the same name stays."""
        for answer in self.answers(deleted_topic_by_id(topic_id, REQUEST_TIMEOUT_MS)):
            if not isinstance(answer, KafkaError) or answer.code == ErrorCode.unknown_topic_id:
                return True
            if is_answer(answer) and answer.code not in TRY_AGAIN:
                return False
        return False

    def topic_id(self, name: str) -> str | None:
        """The id from the first broker that answers. None if it knows no such topic, or if no broker answers."""
        for address in self._addresses():
            try:
                with BrokerProbe(address, timeout_s=_probe_timeout_s()) as probe:
                    return probe.topic_id(name)
            except KafkaError:
                continue
        return None

    def change(self, what: str, question: Question[Result]) -> None:
        """CellError with `what` and the broker's words when it refuses, or nobody answers in 40 s."""
        last = "no broker answered"
        for answer in self.answers(question):
            if not isinstance(answer, KafkaError):
                return
            if is_answer(answer):
                last = str(answer)
                if answer.code not in TRY_AGAIN:
                    break
        raise CellError(f"{what}: {last}")

    def topic_config(self, name: str) -> dict[str, str]:
        """The topic's effective settings as a broker gives them; empty when nobody answers."""
        return self._settings(self._addresses(), "topic", name)

    def own_topic_config(self, name: str) -> dict[str, str]:
        """What is set on the topic itself, without what it has from the brokers."""
        return self._settings(self._addresses(), "topic", name, only_of_topic=True)

    def broker_config(self, broker_id: int, address: Address) -> dict[str, str]:
        """A broker only answers for itself."""
        return self._settings((address,), "broker", str(broker_id))

    def _settings(
        self, addresses: Iterable[Address], kind: str, name: str, *, only_of_topic: bool = False
    ) -> dict[str, str]:
        def ask(probe: BrokerProbe) -> dict[str, str] | None:
            try:
                told = probe.ask(settings_of(kind, name))
            except KafkaError:
                return None
            return {
                key: setting.value
                for key, setting in told.items()
                if setting.value is not None and not setting.is_sensitive and (setting.is_of_topic or not only_of_topic)
            }

        return first_answer(addresses, ask, timeout_s=_probe_timeout_s()) or {}

    def answers(self, question: Question[Result]) -> Iterator[Result | KafkaError]:
        """Answers of all brokers in turn, one after another, until the time limit."""
        deadline = time.monotonic() + _ANSWER_TIMEOUT_S
        while time.monotonic() < deadline and not self._should_stop():
            for address in self._addresses():
                with BrokerProbe(address, timeout_s=_probe_timeout_s()) as probe:
                    try:
                        answer: Result | KafkaError = probe.ask(question)
                    except KafkaError as error:
                        answer = error
                yield answer
            time.sleep(0.1)


def _probe_timeout_s() -> float:
    """A moment longer than the broker may take."""
    return REQUEST_TIMEOUT_MS / 1000 + 1
