"""Reads bodies of API calls like the original, which uses Go's `encoding/json`. The texts of its errors are Go's too.

Clients of Toxiproxy show these errors, and scripts search for them. Go's decoder differs from Python's:

- It reads the first value of a body and ignores the rest.
- The case of field names does not matter. null does not change a field. Unknown fields are ignored.
- A whole number must be written as one: 3.0 and 1e3 are refused.
- It reports an error of syntax before an error of type. Of several errors of type it reports the first.

Pure. Shown by tests/chaos/test_chaos_toxiproxy_go.py and test_chaos_toxiproxy_differential.py.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

DEPTH_MAX: Final = 200  # the API needs a depth of two
INT64: Final = range(-(1 << 63), 1 << 63)
_SPACE: Final = b" \t\r\n"
_SHORT: Final = {7: r"\a", 8: r"\b", 9: r"\t", 10: r"\n", 11: r"\v", 12: r"\f", 13: r"\r"}
_WHOLE: Final = re.compile(r"-?[0-9]+")
_PLAIN_STRING: Final = re.compile(rb'"([ !#-\[\]-~]*)"')  # ASCII without escapes


class GoJsonError(ValueError):
    """An error with the text of Go's decoder, without the title that the API puts before it."""


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
    return _Scanner(body).value(0)


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
    return value


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


class _Scanner:
    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def value(self, depth: int) -> Value:
        if depth > DEPTH_MAX:
            raise GoJsonError("exceeded max depth")
        match self._next():
            case b"{":
                return self._object(depth)
            case b"[":
                return self._array(depth)
            case b'"':
                return self._string()
            case b"t":
                return self._literal(b"true", True)
            case b"f":
                return self._literal(b"false", False)
            case b"n":
                return self._literal(b"null", None)
            case sign if sign in b"-0123456789":
                return self._number()
        raise self._wrong("looking for beginning of value")

    def _next(self) -> bytes:
        """The next byte that is not a space. It is not consumed."""
        while self._at < len(self._body) and self._body[self._at] in _SPACE:
            self._at += 1
        if self._at == len(self._body):
            raise self._wrong("")
        return self._body[self._at : self._at + 1]

    def _took(self, wanted: bytes) -> bool:
        if self._next() != wanted:
            return False
        self._at += 1
        return True

    def _wrong(self, where: str) -> GoJsonError:
        """A syntax error at the present byte, or at the end of the body."""
        if self._at >= len(self._body):
            return GoJsonError("unexpected EOF" if self._body.strip(_SPACE) else "EOF")
        return GoJsonError(f"invalid character {_quoted(self._body[self._at])} {where}")

    def _object(self, depth: int) -> dict[str, Value]:
        self._at += 1
        result: dict[str, Value] = {}
        if self._took(b"}"):
            return result
        while True:
            if self._next() != b'"':
                raise self._wrong("looking for beginning of object key string")
            name = self._string()
            if not self._took(b":"):
                raise self._wrong("after object key")
            item = self.value(depth + 1)
            if item is not None:  # null does not change a field, even if an earlier one of this name has set it
                result[name] = item
            if self._took(b"}"):
                return result
            if not self._took(b","):
                raise self._wrong("after object key:value pair")

    def _array(self, depth: int) -> list[Value]:
        self._at += 1
        result: list[Value] = []
        if self._took(b"]"):
            return result
        while True:
            result.append(self.value(depth + 1))
            if self._took(b"]"):
                return result
            if not self._took(b","):
                raise self._wrong("after array element")

    def _string(self) -> str:
        if found := _PLAIN_STRING.match(self._body, self._at):  # most strings, at a tenth of the time
            self._at = found.end()
            return found[1].decode("ascii")
        begin = self._at
        self._at += 1
        while True:
            byte = self._byte()
            if byte == ord('"'):
                break
            if byte == ord("\\"):
                self._at += 1
                self._escape()
            elif byte < 0x20:
                raise self._wrong("in string literal")
            else:
                self._at += 1
        self._at += 1
        text: str = json.loads(self._body[begin : self._at].decode(errors="replace"), strict=False)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _byte(self) -> int:
        if self._at == len(self._body):
            raise self._wrong("")
        return self._body[self._at]

    def _escape(self) -> None:
        letter = self._byte()
        if letter not in b'bfnrt\\/"u':
            raise self._wrong("in string escape code")
        self._at += 1
        if letter == ord("u"):
            for _ in range(4):
                if self._byte() not in b"0123456789abcdefABCDEF":
                    raise self._wrong(r"in \u hexadecimal character escape")
                self._at += 1

    def _literal(self, word: bytes, value: bool | None) -> bool | None:
        self._at += 1
        for wanted in word[1:]:
            if self._byte() != wanted:
                raise self._wrong(f"in literal {word.decode()} (expecting {_quoted(wanted)})")
            self._at += 1
        return value

    def _number(self) -> Number:
        begin = self._at
        if self._byte() == ord("-"):
            self._at += 1
        if self._is_at(b"0"):
            self._at += 1
        else:
            self._digits("in numeric literal")
        if self._is_at(b"."):
            self._at += 1
            self._digits("after decimal point in numeric literal")
        if self._is_at(b"eE"):
            self._at += 1
            if self._is_at(b"+-"):
                self._at += 1
            self._digits("in exponent of numeric literal")
        return Number(self._body[begin : self._at].decode())

    def _is_at(self, letters: bytes) -> bool:
        return self._at < len(self._body) and self._body[self._at] in letters

    def _digits(self, where: str) -> None:
        """Read digits, at least one."""
        if self._byte() not in b"0123456789":
            raise self._wrong(where)
        while self._is_at(b"0123456789"):
            self._at += 1


def _quoted(byte: int) -> str:
    """One character in single quotes, as in Go's errors of syntax."""
    if byte == ord("'"):
        return r"'\''"
    if byte == ord('"'):
        return "'\"'"
    letter = chr(byte)
    if letter == "\\":
        return r"'\\'"
    if letter.isprintable():
        return f"'{letter}'"
    if byte in _SHORT:
        return f"'{_SHORT[byte]}'"
    return f"'\\x{byte:02x}'" if byte < 0x80 else f"'\\u{byte:04x}'"
