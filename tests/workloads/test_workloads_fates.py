"""FAILED only if the record certainly is not in the log: the tables, and each library for itself."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from runlog.streams.schema import ABSENT, SendStatus
from tests.broker_client.tiny_broker import Plan, TinyBroker
from workloads.clients import make_producer
from workloads.clients.fates import LOCAL_FATES, failed_codes, status_of
from workloads.clients.fates_page import render
from workloads.clients.protocol import ClientSetup

# As near to a single attempt as each library comes.
ONCE: dict[str, dict[str, str]] = {
    "reference": {"retries": "0", "acks": "all", "enable.idempotence": "false"},
    "confluent": {"retries": "0", "acks": "all", "delivery.timeout.ms": "3000"},
    "aiokafka": {"acks": "all", "request.timeout.ms": "1500", "enable.idempotence": "false"},
    "kafka_python": {"retries": "0", "acks": "all", "enable.idempotence": "false"},
}
# For a broker's word that ends the send: a busy host may need seconds to bring it.
PATIENT: dict[str, dict[str, str]] = {
    "confluent": {"delivery.timeout.ms": "60000"},
    "aiokafka": {"request.timeout.ms": "60000"},
}


class Sink:
    """Outcomes by sequence number."""

    def __init__(self) -> None:
        self.seen: dict[int, SendStatus] = {}

    def one(
        self, seq: int, status: SendStatus, error: int, partition: int, offset: int, append_ms: int = ABSENT
    ) -> None:
        assert seq not in self.seen
        self.seen[seq] = SendStatus(status)

    def many(
        self, seqs: Any, status: SendStatus, error: int, partition: int, base_offset: int, append_ms: int = ABSENT
    ) -> None:
        for seq in seqs:
            self.one(seq, status, error, partition, base_offset)

    def timed(self, outcomes: Any) -> None:
        for row in outcomes:
            self.one(int(row["seq"]), row["status"], 0, 0, 0)


def outcome_of(
    client: str, plan: Plan, properties: Mapping[str, str], *, size: int = 10, runtime: Mapping[str, str] | None = None
) -> tuple[SendStatus, bool, int]:
    """(what the adapter says of one send, whether the record is in the log, how many attempts there were)."""
    sink = Sink()
    value = b"x" * size
    with TinyBroker(plan=plan) as broker:
        setup = ClientSetup(
            bootstrap_servers=broker.bootstrap, topics=("t",), properties=properties, runtime=runtime or {}
        )
        producer = make_producer(client, setup, sink)
        producer.connect(60)
        deadline_s = time.monotonic() + 120
        while not producer.send("t", value, None, 7):
            assert time.monotonic() < deadline_s
            producer.poll(0.01)
        while not sink.seen:
            assert time.monotonic() < deadline_s, "no outcome"
            producer.poll(0.01)
        found = sink.seen[7], value in broker.values(), broker.produce_total
        producer.close(1)
        return found


@pytest.mark.parametrize("client", ONCE)
@pytest.mark.parametrize("code", [6, 3])
@pytest.mark.slow
def test_a_refusal_that_may_follow_an_append_is_unknown(client: str, code: int) -> None:
    """Codes 3 and 6 counted as failed with retries=0; the record in the log was then an unlawful phantom."""
    status, is_in_log, _ = outcome_of(client, lambda number: f"late {code}", ONCE[client])
    assert is_in_log
    assert status is SendStatus.UNKNOWN


@pytest.mark.parametrize("client", ["reference", "kafka_python"])
def test_a_refusal_of_the_only_attempt_before_the_append_is_failed(client: str) -> None:
    assert outcome_of(client, lambda number: 19, ONCE[client]) == (SendStatus.FAILED, False, 1)


@pytest.mark.parametrize("client", ONCE)
def test_a_name_that_no_topic_can_have_is_failed(client: str) -> None:
    status, is_in_log, _ = outcome_of(client, lambda number: 17, ONCE[client] | PATIENT.get(client, {}))
    assert (status, is_in_log) == (SendStatus.FAILED, False)


def test_librdkafka_repeats_a_send_although_retries_is_0_so_that_its_refusals_prove_nothing() -> None:
    """NOT_LEADER_OR_FOLLOWER after an append, and NOT_ENOUGH_REPLICAS of the attempt that nobody counted."""
    plan: Plan = lambda number: "late 6" if number == 0 else 19  # noqa: E731
    status, is_in_log, attempts = outcome_of("confluent", plan, ONCE["confluent"])
    assert attempts > 1
    assert is_in_log
    assert status is SendStatus.UNKNOWN


@pytest.mark.thorough
def test_a_limit_that_was_lowered_between_two_attempts_proves_nothing() -> None:
    """MESSAGE_TOO_LARGE counted as failed even when an earlier attempt had been appended and its answer lost."""
    plan: Plan = lambda number: "drop" if number == 0 else 10  # noqa: E731
    for client in ("confluent", "kafka_python"):
        properties = {"acks": "all", "retries": "5", "delivery.timeout.ms": "90000", "enable.idempotence": "false"}
        status, is_in_log, attempts = outcome_of(client, plan, properties | {"request.timeout.ms": "30000"})
        assert (status, is_in_log, attempts) == (SendStatus.UNKNOWN, True, 2)


@pytest.mark.parametrize("client", ONCE)
def test_a_record_that_the_client_itself_refuses_is_failed_and_never_sent(client: str) -> None:
    properties = ONCE[client] | {"max.request.size": "2000"}
    assert outcome_of(client, lambda number: None, properties, size=5_000) == (SendStatus.FAILED, False, 0)


@pytest.mark.parametrize(
    ("code", "retries_possible", "expected"),
    [
        (0, False, SendStatus.UNKNOWN),  # no broker's word
        (-192, False, SendStatus.UNKNOWN),  # librdkafka: message timed out
        (-190, False, SendStatus.UNKNOWN),  # librdkafka: unknown partition, perhaps since an attempt
        (-1, False, SendStatus.UNKNOWN),
        (7, False, SendStatus.UNKNOWN),
        (19, False, SendStatus.FAILED),
        (19, True, SendStatus.UNKNOWN),
        (10, True, SendStatus.UNKNOWN),
        (17, True, SendStatus.FAILED),
        (125, False, SendStatus.UNKNOWN),  # of a future version
    ],
)
def test_if_unsure_a_send_is_unknown(code: int, retries_possible: bool, expected: SendStatus) -> None:
    assert status_of(code, retries_possible=retries_possible) is expected


def test_a_client_in_another_language_is_told_the_same() -> None:
    for retries_possible in (False, True):
        told = set(failed_codes(retries_possible=retries_possible))
        for code in range(-200, 200):
            assert (code in told) == (status_of(code, retries_possible=retries_possible) is SendStatus.FAILED)


def test_every_error_of_librdkafka_that_the_table_names_exists() -> None:
    events = " ".join(row.event for row in LOCAL_FATES if row.client == "confluent")
    names = [word.strip(",") for word in events.split() if word.startswith("_")]
    assert len(names) >= 6
    assert [name for name in names if not hasattr(confluent_kafka.KafkaError, name)] == []


def test_the_page_is_written_from_the_tables() -> None:
    assert (Path(__file__).parents[2] / "docs" / "reference" / "send-fates.md").read_text() == render()
