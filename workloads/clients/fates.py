"""The outcome that an adapter gives a send: FAILED only if the record certainly is not in the log.

There are two tables. `broker.wire.fates` says what a broker's error code proves. This module has the errors that the
libraries themselves report without an answer of a broker, and the attempts that each of them hides from its adapter. If
unsure, a send is unknown, never failed. Shown by tests/workloads/test_workloads_fates.py; docs/reference/send-fates.md
is written from both tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker.door.protocol import FATES, Proof, proof_of
from runlog.streams.schema import SendStatus
from workloads.clients.protocol import LOCAL_ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFate:
    """What a library says by itself of a send. `event` is its exception, or its error code's name."""

    client: str
    event: str
    status: SendStatus | None  # None: the adapter does not count the send, and offers the record again
    reason: str


_NEVER_QUEUED = "raised before the record was queued"
_PERHAPS_SENT = "an attempt may have reached the broker, and the library does not tell"

LOCAL_FATES: Final = tuple(
    LocalFate(client=client, event=event, status=status, reason=reason)
    for client, event, status, reason in (
        ("reference", "BufferExhaustedError", None, "no space for max.block.ms: nothing was taken"),
        ("reference", "any other error of send()", SendStatus.FAILED, _NEVER_QUEUED),
        ("reference", "time-out or close, never sent", SendStatus.FAILED, "no attempt was written"),
        ("reference", "time-out or close, once sent", SendStatus.UNKNOWN, "an attempt was written to a socket"),
        ("confluent", "BufferError", None, "the local queue is full: nothing was taken"),
        ("confluent", "any other error of produce()", SendStatus.FAILED, _NEVER_QUEUED),
        ("confluent", "_MSG_TIMED_OUT, _TIMED_OUT, _TIMED_OUT_QUEUE", SendStatus.UNKNOWN, _PERHAPS_SENT),
        ("confluent", "_PURGE_QUEUE", SendStatus.UNKNOWN, "the queue holds what waits for a retry too"),
        ("confluent", "_PURGE_INFLIGHT, _TRANSPORT", SendStatus.UNKNOWN, "a request was under way"),
        (
            "confluent", "_UNKNOWN_TOPIC, _UNKNOWN_PARTITION, told by the delivery report", SendStatus.UNKNOWN,
            "the topic may have gone after an attempt that was appended",
        ),
        ("aiokafka", "KafkaTimeoutError of send()", None, "no space for request.timeout.ms: nothing was taken"),
        ("aiokafka", "any other error of send()", SendStatus.FAILED, _NEVER_QUEUED),
        ("aiokafka", "any local error of a record's future", SendStatus.UNKNOWN, _PERHAPS_SENT),
        ("kafka_python", "KafkaTimeoutError of send()", None, "no metadata or space in time: nothing was taken"),
        ("kafka_python", "any other error of send()", SendStatus.FAILED, _NEVER_QUEUED),
        ("kafka_python", "any local error of a record's future", SendStatus.UNKNOWN, _PERHAPS_SENT),
        ("java", "an exception of send(), or its callback within send()", SendStatus.FAILED, _NEVER_QUEUED),
        ("java", "any local error of a later callback", SendStatus.UNKNOWN, _PERHAPS_SENT),
    )
)  # fmt: skip

# Attempts that an adapter cannot see when retries=0, by client.
HIDDEN_ATTEMPTS: Final[dict[str, str]] = {
    "confluent": "librdkafka sends again after NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION and other errors "
    "that call for new metadata, and does not count that as a retry: with retries=0 a refusal may be the second answer",
    "aiokafka": "aiokafka has no retries setting: it sends again until request.timeout.ms is over",
}


def status_of(code: int, *, retries_possible: bool) -> SendStatus:
    """The fate of a send whose last answer had `code`. `retries_possible`: there may have been an earlier attempt that
    the adapter does not know. A code that is not positive is no broker's word."""
    proof = proof_of(code) if code > 0 else Proof.NONE
    if proof is Proof.EVERY_ATTEMPT or (proof is Proof.THIS_ATTEMPT and not retries_possible):
        return SendStatus.FAILED
    return SendStatus.UNKNOWN


def failed_codes(*, retries_possible: bool) -> tuple[int, ...]:
    """All codes after which a send certainly is not in the log. A client in another language gets them at the start."""
    return tuple(
        int(code) for code in FATES if status_of(int(code), retries_possible=retries_possible) is SendStatus.FAILED
    )


def code_of(error: BaseException) -> int:
    """The code of an exception of a Python client: the broker's code, or LOCAL_ERROR if no broker said so."""
    code = getattr(error, "errno", None)
    return code if isinstance(code, int) and code > 0 else LOCAL_ERROR
