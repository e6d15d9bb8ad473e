"""What a log can refuse. Disk failures stay OSError, because they are not the log's own errors."""

from __future__ import annotations


class LogError(Exception):
    """Base: the log was asked for something it cannot do."""


class LogCorruptError(LogError):
    """Files that recovery cannot explain, or a batch that does not continue the log."""


class UnreadableBatchError(LogError):
    """A whole batch with the right CRC has records that cannot be read. So the disk returned what was written, and what
    a client wrote is wrong. It costs only whoever asked for these records. `offset` is the batch's base offset."""

    def __init__(self, message: str, *, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class TopicIdMismatchError(LogError):
    """The directory belongs to an earlier topic with the same name."""


# These errors mean that the storage of one log cannot be relied on: the disk refused a call, or it returned other data
# than was written. Every other error is a mistake of the caller, or of a client that wrote a record. In particular a
# CorruptBatchError alone shows no damage of the disk: time_search.py looks at the CRC first.
STORAGE_ERRORS = (OSError, LogCorruptError)


class OffsetOutOfRangeError(LogError):
    """A read outside of [log_start_offset, log_end_offset]."""

    def __init__(self, *, offset: int, log_start_offset: int, log_end_offset: int, name: str) -> None:
        super().__init__(f"{name}: offset {offset} is outside of [{log_start_offset}, {log_end_offset}]")
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
