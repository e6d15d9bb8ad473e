"""What a client library must offer to be measured. One adapter per library, one file per adapter.

An adapter takes Kafka's property names and refuses by name what its library cannot set. Each accepted send is reported
to the outcome sink exactly once, or never if the client is closed first; then it stays unknown. A send is FAILED only
if it certainly was not appended; a timeout or a lost connection after it may have left is UNKNOWN. With acks=0 nobody
ever says that a record arrived, so each outcome is UNKNOWN, with the time at which the client let go of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from runlog.schema import SendStatus

SendToken = tuple[int, int, int]  # seq, intended_us, sent_us: given back unchanged with the outcome
# (token, status, Kafka error code or -1 for a local one or 0, partition or -1, offset or -1); any thread may call it
OutcomeSink = Callable[[SendToken, SendStatus, int, int, int], None]
ReceivedRecord = tuple[int, int, bytes]  # partition, offset, value
LOCAL_ERROR = -1


class PropertyError(ValueError):
    """A Kafka property that this client cannot set, or not to this value."""

    def __init__(self, client: str, name: str, reason: str) -> None:
        super().__init__(f"client {client} cannot set {name}: {reason}")
        self.name = name


class ClientError(RuntimeError):
    """The client could not connect or cannot go on."""


class ProducerClient(Protocol):
    """Used by one thread, which is a real OS thread and may be blocked."""

    def connect(self, timeout_s: float) -> None:
        """Have metadata of the topic. ClientError if that does not come in time."""

    def send(self, value: bytes, key: bytes | None, token: SendToken) -> bool:
        """Hand over one record; False when the client has no space: nothing was taken, try again later."""

    def poll(self, timeout_s: float) -> None:
        """Wait at most this long and deliver outcomes if the library does so from here."""

    def close(self, timeout_s: float) -> None:
        """Stop within this time. Outcomes may still arrive during the call, none after it."""

    def metrics(self) -> dict[str, float]: ...

    def effective(self) -> dict[str, str]:
        """The settings in force, under the library's own names."""


class ConsumerClient(Protocol):
    """A tail reader of given partitions, from their beginning."""

    def connect(self, partitions: list[int], timeout_s: float) -> None: ...

    def poll(self, timeout_s: float) -> list[ReceivedRecord]: ...

    def close(self) -> None: ...


def is_true(text: str) -> bool:
    return text.strip().lower() == "true"
