"""Reads bodies of API calls like the original, which uses Go's `encoding/json`. Where a value has the wrong type, the
text of the error is Go's too: clients of Toxiproxy show it, and scripts search for it. What is no JSON at all gets the
text of Python's `json`. Go's decoder differs from Python's:

- It reads the first value of a body and ignores the rest.
- The case of field names does not matter. null does not change a field. Unknown fields are ignored.
- A whole number must be written as one: 3.0 and 1e3 are refused. NaN and Infinity are no numbers.
- It reports an error of syntax before an error of type. Of several errors of type it reports the first.

Pure. Shown by tests/chaos/test_chaos_toxiproxy_go.py and test_chaos_toxiproxy_differential.py.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

DEPTH_MAX: Final = 200  # the API needs a depth of two
INT64: Final = range(-(1 << 63), 1 << 63)
_SPACE: Final = " \t\r\n"
_WHOLE: Final = re.compile(r"-?[0-9]+")


class GoJsonError(ValueError):
    """An error without the title that the API puts before it."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it was written. Only the field that takes it knows which numbers are allowed."""

    text: str


Value = None | bool | Number | str | list["Value"] | dict[str, "Value"]
# Converts a value that is not null to the value of the field. Raises `_WrongKind`.
Convert = Callable[[Value], object]


@dataclass(slots=True)
class _WrongKind(Exception):
    kind: str
    type_name: str


def decode(body: bytes) -> Value:
    """The first value of the body. Raises GoJsonError."""
    text = body.decode(errors="replace").lstrip(_SPACE)
    if not text:
        raise GoJsonError("EOF")
    try:
        value: Value = _DECODER.raw_decode(text)[0]
    except RecursionError as error:
        raise GoJsonError("exceeded max depth") from error
    except ValueError as error:
        raise GoJsonError(f"invalid JSON: {error}") from error
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [item for each in level for item in _items(each)]
        if not level:
            return value
    raise GoJsonError("exceeded max depth")


def _items(value: Value) -> Iterable[Value]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _object(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    """null does not change a field, even if an earlier one of this name has set it."""
    return {_sound(name): item for name, item in pairs if item is not None}


def _no_number(text: str) -> Value:
    raise ValueError(f"{text} is no number")


def _sound(text: str) -> str:
    """Half of a surrogate pair, which cannot be sent, becomes a replacement character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_DECODER: Final = json.JSONDecoder(
    parse_float=Number, parse_int=Number, parse_constant=_no_number, object_pairs_hook=_object
)


def unmarshal(
    value: Value,
    fields: Mapping[str, Convert],
    *,
    type_name: str,
    struct_name: str,
    path_of: Callable[[str], str] = str,
) -> dict[str, object]:
    """The known fields that are present and not null, by their names in lower case. Raises GoJsonError.

    In its errors Go uses `type_name` for a value that is not a struct, and `struct_name` before a field. `path_of`
    gives the path of a field within the body.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise GoJsonError(cannot_unmarshal(kind_of(value), f"value of type {type_name}"))
    result: dict[str, object] = {}
    error: str | None = None
    for name, item in value.items():
        key = name.lower()
        if key not in fields or item is None:
            continue
        try:
            result[key] = fields[key](item)
        except _WrongKind as wrong:
            where = f"struct field {struct_name}.{path_of(key)} of type {wrong.type_name}"
            error = error or cannot_unmarshal(wrong.kind, where)
    if error is not None:
        raise GoJsonError(error)
    return result


def cannot_unmarshal(kind: str, into: str) -> str:
    return f"json: cannot unmarshal {kind} into Go {into}"


def as_text(value: Value) -> str:
    if not isinstance(value, str):
        raise _WrongKind(kind_of(value), "string")
    return _sound(value)


def as_flag(value: Value) -> bool:
    if not isinstance(value, bool):
        raise _WrongKind(kind_of(value), "bool")
    return value


def as_whole(type_name: str) -> Callable[[Value], int]:
    """Converts a whole number of 64 bits. Go's `int` has 64 bits on every machine that this server runs on."""

    def convert(value: Value) -> int:
        if not isinstance(value, Number):
            raise _WrongKind(kind_of(value), type_name)
        if not _WHOLE.fullmatch(value.text) or len(value.text) > 20 or int(value.text) not in INT64:
            raise _WrongKind(f"number {value.text}", type_name)
        return int(value.text)

    return convert


def as_float32(value: Value) -> float:
    if not isinstance(value, Number):
        raise _WrongKind(kind_of(value), "float32")
    try:
        narrow: float = struct.unpack("f", struct.pack("f", float(value.text)))[0]
    except OverflowError:
        narrow = math.inf
    if math.isinf(narrow):
        raise _WrongKind(f"number {value.text}", "float32")
    return _shortest(narrow)


def as_struct(type_name: str) -> Convert:
    def convert(value: Value) -> Value:
        if not isinstance(value, dict):
            raise _WrongKind(kind_of(value), type_name)
        return value

    return convert


def plain(value: Value) -> object:
    """The value as Python's own `json` would return it. Numbers with a point or an exponent are floats."""
    match value:
        case Number(text=text):
            return int(text) if _WHOLE.fullmatch(text) and len(text) <= 40 else float(text)
        case list():
            return [plain(item) for item in value]
        case dict():
            return {name: plain(item) for name, item in value.items()}
        case str():
            return _sound(value)
    return value


def _shortest(narrow: float) -> float:
    """The double with the fewest digits that rounds to this float32. Go writes it like this: 0.1 and not
    0.10000000149011612."""
    for digits in range(1, 10):
        short = float(f"{narrow:.{digits}g}")
        if struct.pack("f", short) == struct.pack("f", narrow):
            return short
    return narrow


def kind_of(value: Value) -> str:
    match value:
        case bool():
            return "bool"
        case Number():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"
