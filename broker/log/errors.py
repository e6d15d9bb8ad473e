"""What a log can refuse. Disk failures stay OSError, because they are not the log's own errors."""

from __future__ import annotations

from broker.wire.errors import CorruptBatchError


class LogError(Exception):
    """Base: the log was asked for something it cannot do."""


class LogCorruptError(LogError):
    """Files that recovery cannot explain, or a batch that does not continue the log."""


class TopicIdMismatchError(LogError):
    """The directory belongs to an earlier topic with the same name."""


# These errors mean that the storage of one log cannot be relied on: the disk refused a call, or it returned other data
# than was written. Every other error is a mistake of the caller.
STORAGE_ERRORS = (OSError, LogCorruptError, CorruptBatchError)


class OffsetOutOfRangeError(LogError):
    """A read outside of [log_start_offset, log_end_offset]."""

    def __init__(self, *, offset: int, log_start_offset: int, log_end_offset: int, name: str) -> None:
        super().__init__(f"{name}: offset {offset} is outside of [{log_start_offset}, {log_end_offset}]")
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
