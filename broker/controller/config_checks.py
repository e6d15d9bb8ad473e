"""What counts as a valid value of a setting. The reasons why one is wrong are in Apache Kafka's words (ConfigDef).

`problem(name, value)` is the whole message, None if the value is fine.
Shown by tests/broker_controller/test_controller_config_checks.py.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
_INTEGER = re.compile(r"[+-]?[0-9]+")  # Java's integers; Python's int() also takes 1_000 and digits of other scripts
_DIGITS_MAX = 4_000  # Python reads at most 4,300 digits; no type has as many


def wrong(name: str, value: object, reason: str) -> str:
    return f"Invalid value {value} for configuration {name}: {reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerRange:
    low: int
    high: int

    def problem(self, name: str, value: str) -> str | None:
        is_int = self.high <= INT32_MAX
        number = _integer(value)
        most = INT32_MAX if is_int else INT64_MAX
        if number is None or not -most - 1 <= number <= most:
            return wrong(name, value, f"Not a number of type {'INT' if is_int else 'LONG'}")
        if number < self.low:
            return wrong(name, number, f"Value must be at least {self.low}")
        return wrong(name, number, f"Value must be no more than {self.high}") if number > self.high else None


def _integer(value: str) -> int | None:
    text = value.strip()
    return int(text) if len(text) <= _DIGITS_MAX and _INTEGER.fullmatch(text) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GzipLevel:
    def problem(self, name: str, value: str) -> str | None:
        number = _integer(value)
        if number is None or not -INT32_MAX - 1 <= number <= INT32_MAX:
            return wrong(name, value, "Not a number of type INT")
        is_known = number == -1 or 1 <= number <= 9
        return None if is_known else wrong(name, number, "Value must be between 1 and 9 or equal to -1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fraction:
    def problem(self, name: str, value: str) -> str | None:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if math.isnan(number) or "_" in value:
            return wrong(name, value, "Not a number of type DOUBLE")
        if number < 0:
            return wrong(name, number, "Value must be at least 0")
        return wrong(name, number, "Value must be no more than 1") if number > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyList:
    """A comma-separated list, which may be empty, but has no empty item."""

    def problem(self, name: str, value: str) -> str | None:
        is_whole = not value.strip() or all(item.strip() for item in value.split(","))
        return None if is_whole else f"Configuration '{name}' values must not be empty."


@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean:
    def problem(self, name: str, value: str) -> str | None:
        if value.strip().lower() in ("true", "false"):
            return None
        return wrong(name, value, "Expected value to be either true or false")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """`allowed` has Kafka's order, because the message lists the values."""

    allowed: tuple[str, ...]
    several: bool = False  # a comma-separated list, which may be empty

    def problem(self, name: str, value: str) -> str | None:
        given = [item.strip() for item in value.split(",") if value.strip()] if self.several else [value]
        for item in given:
            if item not in self.allowed:
                return wrong(name, item, f"String must be one of: {', '.join(self.allowed)}")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetReset:
    """Where share groups begin to read: earliest, latest, or by_duration with a duration that is not negative."""

    def problem(self, name: str, value: str) -> str | None:
        if value in ("earliest", "latest") or _DURATION.fullmatch(value):
            return None
        words = "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
        return wrong(name, value, f"Invalid value `{value}` for configuration {name}. {words}")


# ISO 8601, as java.time.Duration reads it, without signs.
_DURATION = re.compile(
    r"by_duration:P(?=.)(?:[0-9]{1,12}D)?(?:T(?=.)(?:[0-9]{1,12}H)?(?:[0-9]{1,12}M)?(?:[0-9]{1,12}(?:\.[0-9]{0,9})?S)?)?",
    re.IGNORECASE,
)

Check = IntegerRange | GzipLevel | Fraction | AnyList | Boolean | Choice | OffsetReset
