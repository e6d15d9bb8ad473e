"""A file of Java properties, read as java.util.Properties.load reads it. Pure; neither settings nor their meaning.

Two things that Java takes are refused here, since who wrote them hardly meant what Java makes of it: a line without `=`
or `:`, of which Java makes a name with the rest as its value, and letters beyond ASCII outside of comments, which Java
reads as Latin-1 and an editor writes as UTF-8. Values lose blanks at both ends, as Kafka's ConfigDef takes them away.
Source: the documentation of java.util.Properties.load(Reader), Java SE 17.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u.{0,4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


class PropertiesError(ValueError):
    """`line`: 1-based, the first one of those that a backslash joins. The text shows no value, which may be secret."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    key: str
    value: str
    line: int


def parse_java_properties(text: str, *, is_ascii: bool = True) -> list[Property]:
    """In the order of the file; a name may come twice, of which Java takes the last. Raises PropertiesError.

    `is_ascii=False` takes letters beyond ASCII as they are.
    """
    return [_property(number, line, is_ascii) for number, line in _logical_lines(text)]


def _property(number: int, line: str, is_ascii: bool) -> Property:
    if is_ascii and not line.isascii():
        letter = next(each for each in line if not each.isascii())
        raise PropertiesError(
            number, f"expected ASCII, got {letter!r}, which Java reads as Latin-1: write it as \\u{ord(letter):04x}"
        )
    end = _key_end(line)
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] not in ("=", ":"):
        raise PropertiesError(number, f"expected name=value, got no = after {line[:end][:40]!r}")
    return Property(key=_unescaped(number, line[:end]), value=_unescaped(number, rest[1:]).strip(), line=number)


def _key_end(line: str) -> int:
    """Where the name ends: at the first `=`, `:` or blank without a backslash before it."""
    place = 0
    while place < len(line) and line[place] not in "=:" + _BLANKS:
        place += 2 if line[place] == "\\" else 1
    return min(place, len(line))


def _unescaped(number: int, text: str) -> str:
    def one(found: re.Match[str]) -> str:
        what = found.group(1)
        if what[0] != "u":
            return _ESCAPED.get(what, what)
        try:
            return chr(int(what[1:], 16)) if len(what) == 5 else _malformed(number)
        except ValueError:
            return _malformed(number)

    return _ESCAPE.sub(one, text)


def _malformed(number: int) -> str:
    raise PropertiesError(number, r"expected four hexadecimal digits after \u; a backslash itself is written \\")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number of its first line, the line) for each logical line. Comments and empty lines are left out."""
    begun, number_begun, goes_on = "", 0, False
    for number, raw in enumerate(_LINE_ENDS.split(text), start=1):
        line = raw.lstrip(_BLANKS)
        if not goes_on and (not line or line[0] in "#!"):
            continue
        number_begun = number_begun if goes_on else number
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        begun += line[:-1] if goes_on else line
        if not goes_on:
            yield number_begun, begun
            begun = ""
    if begun:
        yield number_begun, begun
