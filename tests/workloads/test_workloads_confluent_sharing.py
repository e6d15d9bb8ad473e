"""The member of a share group over librdkafka: what it refuses by name, and what it tells of polls and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import confluent_kafka
import pytest

from runlog.records.history import Acknowledged, AcknowledgementKind
from workloads.clients.confluent.share_member import ConfluentShareMember, share_settings
from workloads.clients.member_protocol import ShareSetup
from workloads.clients.protocol import ClientError, PropertyError

SETUP = ShareSetup(bootstrap_servers="127.0.0.1:1", topics=("t",), group_id="g", properties={}, is_implicit=False)
P0, P1 = (confluent_kafka.TopicPartition("t", index) for index in (0, 1))


class Message:
    def __init__(self, partition: int, offset: int, error: Any = None) -> None:
        self._partition, self._offset, self._error = partition, offset, error

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes:
        return b"v"

    def timestamp(self) -> tuple[int, int]:
        return (1, 5)

    def delivery_count(self) -> int:
        return 2

    def error(self) -> Any:
        return self._error


class Library:
    """Stands for librdkafka: gives what a test puts in, and answers an acknowledgement when a test says so."""

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        self.configuration = configuration
        self.polls: list[list[Message] | Exception] = []
        self.said: list[tuple[str, int, int, Any]] = []

    def set_acknowledgement_commit_callback(self, callback: Any) -> None:
        self.answer = callback

    def subscribe(self, topics: Sequence[str]) -> None:
        self.topics = topics

    def poll(self, timeout_s: float) -> list[Message]:
        given = self.polls.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    def acknowledge_offset(self, topic: str, partition: int, offset: int, kind: Any) -> None:
        self.said.append((topic, partition, offset, kind))


class Listener:
    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def acknowledged(self, *told: Any) -> None:
        self.told.append(told)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> tuple[ConfluentShareMember, Library, Listener]:
    return _made(monkeypatch, is_implicit=False)


def _made(monkeypatch: pytest.MonkeyPatch, *, is_implicit: bool) -> tuple[ConfluentShareMember, Library, Listener]:
    monkeypatch.setattr(confluent_kafka, "ShareConsumer", Library)
    listener = Listener()
    setup = ShareSetup(
        bootstrap_servers="h:1", topics=("t",), group_id="g", properties={"max.poll.records": "9"},
        is_implicit=is_implicit,
    )  # fmt: skip
    member = ConfluentShareMember(setup, listener)
    member.connect(1.0)
    library = member._consumer
    assert isinstance(library, Library)
    return member, library, listener


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("share.acknowledgement.mode", "the reader's `commit` decides that"),
        ("group.id", "the harness names the group"),
        ("share.acquire.mode", "librdkafka has no equivalent"),
        ("max.pol.records", "max.poll.records"),
    ],
)
def test_what_the_reader_decides_and_what_librdkafka_lacks_is_refused_by_name(name: str, words: str) -> None:
    with pytest.raises(PropertyError, match=words):
        share_settings({name: "x"})


def test_what_does_not_fit_a_share_consumer_is_refused_by_the_library_itself() -> None:
    setup = ShareSetup(
        bootstrap_servers="127.0.0.1:1", topics=("t",), group_id="g", properties={"isolation.level": "read_committed"},
        is_implicit=True,
    )  # fmt: skip
    with pytest.raises(PropertyError, match=r"isolation\.level.*not applicable for share consumer"):
        ConfluentShareMember(setup, Listener())


def test_properties_have_kafkas_names_and_the_mode_is_the_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_implicit, mode in ((True, "implicit"), (False, "explicit")):
        _, library, _ = _made(monkeypatch, is_implicit=is_implicit)
        assert library.configuration["share.acknowledgement.mode"] == mode
        assert library.configuration["max.poll.records"] == "9"
    assert share_settings({"fetch.max.wait.ms": "7"}) == {"fetch.wait.max.ms": "7"}


def test_records_may_have_been_given_since_the_earlier_ones_of_their_partition_were_taken(
    made: tuple[ConfluentShareMember, Library, Listener],
) -> None:
    member, library, _ = made
    library.polls = [
        [Message(0, 1)],
        [],
        [Message(1, 4)],
        [Message(0, 2), Message(0, 3)],
        [Message(0, 5), Message(1, 5)],
    ]
    first, none, other, second, both = (member.poll(0.1) for _ in range(5))
    assert first.records == [("t", 0, 1, b"v", 5)]
    assert first.counts == [2]
    assert first.asked_ns == other.asked_ns <= first.polled_ns, "since the member was there"
    assert none.records == []
    assert second.asked_ns == first.polled_ns
    assert both.asked_ns == other.polled_ns, "the earlier of the two partitions"


def test_an_answer_is_told_by_what_was_said_of_each_record(
    made: tuple[ConfluentShareMember, Library, Listener],
) -> None:
    member, library, listener = made
    library.polls = [[Message(0, offset) for offset in range(4)]]
    records = member.poll(0.1).records
    kinds = (
        AcknowledgementKind.ACCEPT,
        AcknowledgementKind.RELEASE,
        AcknowledgementKind.ACCEPT,
        AcknowledgementKind.REJECT,
    )
    for record, kind in zip(records, kinds, strict=True):
        member.acknowledge(record, kind)
    assert [kind.name for *_, kind in library.said] == ["ACCEPT", "RELEASE", "ACCEPT", "REJECT"]
    library.answer({P0: {0, 1, 2}}, None)
    assert listener.told == [
        (("t", 0), AcknowledgementKind.ACCEPT, Acknowledged.CONFIRMED, [0, 2], ""),
        (("t", 0), AcknowledgementKind.RELEASE, Acknowledged.CONFIRMED, [1], ""),
    ]
    listener.told.clear()
    library.answer({P0: {3, 77}, P1: {3}}, None)
    assert listener.told == [(("t", 0), AcknowledgementKind.REJECT, Acknowledged.CONFIRMED, [3], "")], "and no others"


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (confluent_kafka.KafkaError.INVALID_RECORD_STATE, Acknowledged.REFUSED),
        (confluent_kafka.KafkaError.NOT_LEADER_FOR_PARTITION, Acknowledged.UNKNOWN),
        (confluent_kafka.KafkaError._TRANSPORT, Acknowledged.UNKNOWN),
    ],
)
def test_only_a_wrong_state_of_a_record_is_a_refusal(
    monkeypatch: pytest.MonkeyPatch, code: int, outcome: Acknowledged
) -> None:
    member, library, listener = _made(monkeypatch, is_implicit=True)
    library.polls = [[Message(1, 8)]]
    member.poll(0.1)
    error = confluent_kafka.KafkaError(code)
    library.answer({P1: {8}}, confluent_kafka.KafkaException(error))
    assert listener.told == [(("t", 1), AcknowledgementKind.ACCEPT, outcome, [8], error.name())]


def test_a_fault_is_waited_out_and_an_error_for_good_ends_the_member(
    made: tuple[ConfluentShareMember, Library, Listener],
) -> None:
    member, library, _ = made
    passing = confluent_kafka.KafkaError(confluent_kafka.KafkaError._TRANSPORT, "gone", False, True)
    final = confluent_kafka.KafkaError(confluent_kafka.KafkaError.GROUP_AUTHORIZATION_FAILED, "no")
    library.polls = [confluent_kafka.KafkaException(passing), [Message(0, 1, passing)], [Message(0, 1, final)]]
    assert (member.poll(0.1).records, member.poll(0.1).records) == ([], [])
    with pytest.raises(ClientError, match="client confluent: no"):
        member.poll(0.1)
