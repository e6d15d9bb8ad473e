"""Topic settings that may be overridden, and what counts as a valid value. Names, not behaviour: the log obeys them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerRange:
    low: int
    high: int

    def problem(self, value: str) -> str | None:
        try:
            number = int(value)
        except ValueError:
            return f"expected an integer, got {value!r}"
        return None if self.low <= number <= self.high else f"expected {self.low}..{self.high}, got {number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fraction:
    def problem(self, value: str) -> str | None:
        try:
            number = float(value)
        except ValueError:
            return f"expected a number, got {value!r}"
        return None if 0 <= number <= 1 else f"expected 0..1, got {value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    allowed: tuple[str, ...]
    several: bool = False  # a comma-separated list

    def problem(self, value: str) -> str | None:
        given = [item.strip() for item in value.split(",")] if self.several else [value]
        wrong = [item for item in given if item not in self.allowed]
        return f"expected {' or '.join(self.allowed)}, got {value!r}" if wrong else None


_BOOLEAN = Choice(allowed=("true", "false"))
_LONG = IntegerRange(low=0, high=_INT64_MAX)
_LONG_OR_UNLIMITED = IntegerRange(low=-1, high=_INT64_MAX)
_INT = IntegerRange(low=0, high=_INT32_MAX)

TOPIC_CONFIGS: Mapping[str, IntegerRange | Fraction | Choice] = {
    "cleanup.policy": Choice(allowed=("delete", "compact"), several=True),
    "compression.type": Choice(allowed=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")),
    "delete.retention.ms": _LONG,
    "file.delete.delay.ms": _LONG,
    "flush.messages": IntegerRange(low=1, high=_INT64_MAX),
    "flush.ms": _LONG,
    "index.interval.bytes": _INT,
    "max.compaction.lag.ms": IntegerRange(low=1, high=_INT64_MAX),
    "max.message.bytes": _INT,
    "message.timestamp.after.max.ms": _LONG,
    "message.timestamp.before.max.ms": _LONG,
    "message.timestamp.type": Choice(allowed=("CreateTime", "LogAppendTime")),
    "min.cleanable.dirty.ratio": Fraction(),
    "min.compaction.lag.ms": _LONG,
    "min.insync.replicas": IntegerRange(low=1, high=_INT32_MAX),
    "preallocate": _BOOLEAN,
    "retention.bytes": _LONG_OR_UNLIMITED,
    "retention.ms": _LONG_OR_UNLIMITED,
    "segment.bytes": IntegerRange(low=14, high=_INT32_MAX),
    "segment.index.bytes": IntegerRange(low=4, high=_INT32_MAX),
    "segment.jitter.ms": _LONG,
    "segment.ms": IntegerRange(low=1, high=_INT64_MAX),
    "unclean.leader.election.enable": _BOOLEAN,
}


def topic_config_problem(name: str, value: str | None) -> str | None:
    """What is wrong with this override, for the error message; None if it is fine."""
    if name not in TOPIC_CONFIGS:
        return f"Unknown topic config name: {name}"
    if value is None:
        return f"Null value not supported for topic config: {name}"
    problem = TOPIC_CONFIGS[name].problem(value)
    return None if problem is None else f"Invalid value for topic config {name}: {problem}"
