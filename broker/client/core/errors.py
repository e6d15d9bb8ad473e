"""The exceptions of the client's public calls. One exception has Kafka's code and says whether the failure is definite.

It knows the names of error codes. It does not know why a connection or a batch failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from broker.wire.errors import ErrorCode, error_name, is_retriable

Entry = TypeVar("Entry")
Entry_co = TypeVar("Entry_co", covariant=True)
LOCAL_ERROR_CODE = -1  # the run log writes -1 for an error that came from no broker


class ConnectionClosedError(Exception):
    """The peer closed the connection."""


class KafkaError(Exception):
    """A failed operation. `code` is Kafka's number, or -1 if the client itself gave up. In that case `name` says why.

    If `definite` is False, a record may have been appended although the send failed. The outcome of such a send is
    unknown; it never counts as lost.
    """

    def __init__(self, code: int, message: str, *, definite: bool = True, name: str | None = None) -> None:
        self.code = int(code)
        self.name = error_name(self.code) if name is None else name
        self.retriable = is_retriable(self.code) if self.code > 0 else False
        self.definite = definite
        super().__init__(f"{self.name}: {message}")


class IncompleteAnswerError(KafkaError):
    """A broker's answer lacks the entry that was asked for. Nobody knows whether the broker did what was asked."""

    def __init__(self) -> None:
        super().__init__(LOCAL_ERROR_CODE, "the answer leaves out what was asked", definite=False, name="LOCAL_ANSWER")


class ConfigurationError(KafkaError, ValueError):
    """A property that is unknown, is out of range, or contradicts another one."""

    def __init__(self, message: str) -> None:
        super().__init__(LOCAL_ERROR_CODE, message, name="INVALID_CONFIGURATION")


class TimedOutError(KafkaError, TimeoutError):
    """The time limit of a call has passed."""

    def __init__(self, message: str, *, definite: bool = True) -> None:
        super().__init__(LOCAL_ERROR_CODE, message, definite=definite, name="LOCAL_TIMEOUT")


class AuthenticationError(KafkaError):
    """The broker does not accept the client's name, password, token or certificate, or the client does not accept the
    broker's certificate.

    A new attempt does not help by itself, so no call repeats it. `reason` is the text without a code.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(LOCAL_ERROR_CODE, reason, name="LOCAL_AUTHENTICATION")


class BufferExhaustedError(TimedOutError):
    """`buffer.memory` stayed full for `max.block.ms`. The record was not queued."""


class ClosedError(KafkaError):
    """The client was closed before the operation could finish."""

    def __init__(self, message: str, *, definite: bool = True) -> None:
        super().__init__(LOCAL_ERROR_CODE, message, definite=definite, name="LOCAL_CLOSED")


class CommitFailedError(KafkaError):
    """The member is no longer in the group, or the group is rebalancing. The next reader of the partitions gets the
    uncommitted records again."""

    def __init__(self, cause: KafkaError) -> None:
        super().__init__(cause.code, f"the offsets are not committed: {cause}")


class LogTruncationError(KafkaError):
    """The log was cut back to before the consumer's position. What it read from `divergent_offset` on is gone.

    It is None if the leader cannot tell the offset. The application must seek to go on.
    """

    def __init__(self, partition: tuple[str, int], offset: int, divergent_offset: int | None) -> None:
        self.partition = partition
        self.offset = offset
        self.divergent_offset = divergent_offset
        where = "at an offset that the leader cannot tell" if divergent_offset is None else f"at {divergent_offset}"
        super().__init__(
            LOCAL_ERROR_CODE,
            f"{partition[0]}-{partition[1]}: the position is {offset}, and the leader's log parts from what was read "
            f"{where}; auto.offset.reset=none, so seek to go on",
            name="LOG_TRUNCATION",
        )


def record_too_large(message: str) -> KafkaError:
    return KafkaError(ErrorCode.message_too_large, message)


def first_of(entries: Sequence[Entry] | None) -> Entry:
    """The only entry of an answer to a question about one thing. Raises IncompleteAnswerError if there is no entry."""
    if not entries:
        raise IncompleteAnswerError
    return entries[0]


class _Topic(Protocol[Entry_co]):
    @property
    def partitions(self) -> Sequence[Entry_co]: ...


def first_partition(topics: Sequence[_Topic[Entry]] | None) -> Entry:
    return first_of(first_of(topics).partitions)
