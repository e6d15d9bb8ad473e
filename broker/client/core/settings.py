"""How a mapping of Kafka properties becomes a typed configuration: names, types, ranges, and the suggestion of the
nearest name.

It knows no particular property; config.py lists them. A value may be text, as in a properties file, or already typed.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from broker.client.core.errors import ConfigurationError

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
_TRUE_FALSE = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The range of a number (both ends are allowed), or the choices of a text. If the text is a list, the choices hold
    for each element. The value of a secret is never shown."""

    low: int | None = None
    high: int | None = None
    choices: tuple[str, ...] = ()
    is_secret: bool = False


HIDDEN: Final = "[hidden]"  # Kafka shows a value of the type password like this


def setting(
    default: Any,
    *,
    low: int | None = None,
    high: int | None = None,
    choices: tuple[str, ...] = (),
    is_secret: bool = False,
) -> Any:
    """A dataclass field with its limits. It returns Any, because dataclasses.field has no better type either."""
    limits = Limits(low=low, high=high, choices=choices, is_secret=is_secret)
    return dataclasses.field(default=default, metadata={"limits": limits}, repr=not is_secret)


def settings_of(kind: type[Any]) -> list[dataclasses.Field[Any]]:
    """The fields that are properties. A configuration may have other fields, for example a configuration inside it."""
    return [each for each in dataclasses.fields(kind) if "limits" in each.metadata]


Config = TypeVar("Config")


def property_name(field_name: str) -> str:
    return field_name.replace("_", ".")


def parse_properties(
    kind: type[Config],
    properties: Mapping[str, object],
    refused: Mapping[str, str],
    *,
    nearest_of: Iterable[str] = (),
) -> tuple[Config, frozenset[str]]:
    """Returns the configuration and the names that the caller set. `refused` explains names that are known but not
    supported. The suggestion for an unknown name is a name of this configuration, or one of `nearest_of`."""
    fields = {property_name(each.name): each for each in settings_of(kind)}
    values: dict[str, Any] = {}
    for name, value in properties.items():
        if name in refused:
            raise ConfigurationError(f"{name}: {refused[name]}")
        if name not in fields:
            raise ConfigurationError(_unknown(name, [*fields, *nearest_of]))
        field = fields[name]
        values[field.name] = _convert(name, value, str(field.type), field.metadata["limits"])
    return kind(**values), frozenset(values)


def check_value(kind: type[Any], name: str, value: object) -> None:
    """Raises ConfigurationError if the property `name` of this configuration cannot have the value. Ignores unknown
    properties."""
    for field in settings_of(kind):
        if property_name(field.name) == name:
            _convert(name, value, str(field.type), field.metadata["limits"])


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name.replace("_", "."), known, n=1, cutoff=0.5)
    return f"unknown property {name!r}" + (f", nearest is {near[0]!r}" if near else "")


def _convert(name: str, value: object, kind: str, limits: Limits) -> Any:
    if kind == "bool":
        result = _TRUE_FALSE.get(str(value).strip().lower())
        if result is None:
            raise ConfigurationError(f"{name}: expected true or false, got {value!r}")
        return result
    if kind == "int":
        return _number(name, value, limits)
    if kind == "tuple[str, ...]":
        parts = value.split(",") if isinstance(value, str) else list(value)  # type: ignore[call-overload]
        return tuple(_choice(name, str(part).strip(), limits) for part in parts if str(part).strip())
    return _choice(name, str(value).strip(), limits)


def _choice(name: str, text: str, limits: Limits) -> str:
    if limits.choices and text not in limits.choices:
        near = difflib.get_close_matches(text.upper(), limits.choices, n=1, cutoff=0.7)
        expected = ", ".join(each or "nothing" for each in limits.choices)
        raise ConfigurationError(
            f"{name}: expected one of {expected}, got {text!r}" + (f", nearest is {near[0]!r}" if near else "")
        )
    return text


def _number(name: str, value: object, limits: Limits) -> int:
    try:
        if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
            raise ValueError
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise ConfigurationError(f"{name}: expected a whole number, got {value!r}") from None
    low, high = limits.low, limits.high
    if (low is not None and number < low) or (high is not None and number > high):
        raise ConfigurationError(f"{name}: expected {low} to {high}, got {number}")
    return int(number)


def as_properties(config: object) -> dict[str, str]:
    """The effective configuration as Kafka properties, for reports."""
    result = {}
    for field in settings_of(type(config)):
        value = getattr(config, field.name)
        if field.metadata["limits"].is_secret and value:
            text = HIDDEN
        elif isinstance(value, bool):
            text = str(value).lower()
        else:
            text = ",".join(value) if isinstance(value, tuple) else str(value)
        result[property_name(field.name)] = text
    return result


_DURATION = re.compile(r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?")


def parse_duration_ms(text: str) -> int | None:
    """The duration of `by_duration:P3DT4H5M6.7S`, as java.time.Duration reads it. None if it is no duration, or if it
    is negative."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()) or text.endswith("T"):
        return None
    days, hours, minutes, seconds = match.groups()
    whole_ms = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60_000
    return whole_ms + round(float(seconds or 0) * 1000)
