"""EDN as text: a reader with the place of each error, and a writer.

EDN (github.com/edn-format/edn) is how Clojure programs write data, Jepsen's histories among them. Why this is our own
and no library: docs/decisions/0026-edn.md. Knows nothing of histories, and touches no file.
Shown by tests/reports/test_reports_jepsen_edn.py.

| EDN | Python |
|---|---|
| nil, true, false, integers, strings | None, bool, int, str |
| floats, also ##Inf, ##-Inf and ##NaN | float |
| :keyword, symbol, character | Keyword, Symbol, Char |
| vector and list, which EDN calls equal | tuple |
| map, set | Map, frozenset |
| #tag value | Tagged, whatever the tag is: `inst` and `uuid` stay text |

To Python, `1`, `1.0` and `true` are one key. A map or a set that holds two of them is refused as
if it had one twice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

DEPTH_MAX: Final = 64  # of values in values; a history has seven
DIGITS_MAX: Final = 400  # of a number: int() takes quadratic time
_LONG_MAX: Final = 1 << 63  # from here on, Clojure wants an N behind an integer


@dataclass(frozen=True, slots=True)
class Keyword:
    """`:name`, or `:space/name`, without the colon."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str


@dataclass(frozen=True, slots=True)
class Char:
    char: str


class Map(dict[Any, Any]):
    """A map that may be a key or an element itself. Whoever holds one leaves it as it is."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


@dataclass(frozen=True, slots=True)
class Tagged:
    tag: str
    value: Any  # a Form


# None, bool, int, float, str, Keyword, Symbol, Char, tuple, Map, frozenset or Tagged; nested, so no closer type helps.
Form: TypeAlias = Any


class EdnError(ValueError):
    """The text is not EDN. Line and column begin at 1."""

    def __init__(self, what: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {what}")
        self.line, self.column = line, column


class Read(NamedTuple):
    """A value, and where it begins in the text."""

    form: Form
    at: int


def read_forms(text: str) -> Iterator[Read]:
    """The values of a text, one after the other. EdnError where it is no EDN; what came before was given by then."""
    return _Reader(text, level=0).forms()


def read_elements(text: str) -> Iterator[Read]:
    """As `read_forms`. But if the text is one vector or list, its elements: a history comes in both ways."""
    first = _SPACE.match(text)
    begin = first.end() if first else 0
    return _Reader(text, level=1 if text[begin : begin + 1] in ("[", "(") else 0).forms()


def place_in(text: str, at: int) -> tuple[int, int]:
    """Line and column of a position, from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


_ENDS = r"""\s,;"()\[\]{}\\"""
_SPACE: Final = re.compile(r"(?:[\s,]++|;[^\n]*+)*+")
_TOKEN: Final = re.compile(
    rf"""(?:[\s,]++|;[^\n]*+)*+
    (?:(?P<atom>[^\#{_ENDS}][^{_ENDS}]*)
    |(?P<open>\#\{{|[\[({{])
    |(?P<close>[\])}}])
    |(?P<string>"(?:[^"\\]++|\\.)*+")
    |(?P<tag>\#[A-Za-z][^{_ENDS}]*)
    |(?P<char>\\(?:[^{_ENDS}]+|.))
    |(?P<discard>\#_)
    |(?P<special>\#\#[^{_ENDS}]+)
    |(?P<space>\Z))""",
    re.VERBOSE | re.DOTALL,
)
_INTEGER: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)N?\Z")
_FLOAT: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?M?\Z")
_SYMBOL: Final = re.compile(r"[^\W\d]|[.*+!\-?$%&=<>/_|']", re.UNICODE)
_CONSTANTS: Final[dict[str, Form]] = {"nil": None, "true": True, "false": False}
_SPECIALS: Final = {"##Inf": math.inf, "##-Inf": -math.inf, "##NaN": math.nan}
_CHARS: Final = {"newline": "\n", "return": "\r", "space": " ", "tab": "\t", "formfeed": "\f", "backspace": "\b"}
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES: Final = {"t": "\t", "r": "\r", "n": "\n", "b": "\b", "f": "\f", "\\": "\\", '"': '"'}
_CLOSES: Final = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_NAMES: Final = {"[": "vector", "(": "list", "{": "map", "#{": "set", "#": "tag", "#_": "discard #_"}


@dataclass(slots=True)
class _Open:
    """What was begun and is not complete yet: a collection, or a tag or a discard that waits for its value."""

    opener: str
    at: int
    items: list[Form]
    places: list[int]  # of the items
    tag: str
    waits: bool  # a tag or a discard


class _Reader:
    """One loop over the tokens, and a stack of what is open: no recursion, whatever the text holds."""

    def __init__(self, text: str, level: int) -> None:
        """`level` 1: give the elements of the one outer vector or list, else the values of the text."""
        self._text, self._level = text, level
        self._stack: list[_Open] = []
        self._constants: dict[str, Form] = dict(_CONSTANTS)  # and every keyword that was met

    def forms(self) -> Iterator[Read]:
        """The loop is written for speed: most tokens are numbers, keywords and brackets (a million a second)."""
        text, level, stack, next_token = self._text, self._level, self._stack, _TOKEN.match
        constants, at, is_closed = self._constants, 0, False
        while token := next_token(text, at):
            kind, begin, at = token.lastgroup, token.start(token.lastgroup or 0), token.end()
            if kind == "space":  # what is left behind the last value
                break
            if is_closed:
                self._fail("a value after the end of the history's vector", begin)
            if kind == "atom":
                atom = token["atom"]
                form = constants.get(atom, constants)
                if form is constants:
                    form = (
                        int(atom) if atom.isdecimal() and len(atom) < 19 and atom[0] != "0" else self._atom(atom, begin)
                    )
            elif kind == "open":
                self._open(token["open"], begin)
                continue
            elif kind == "close":
                opened = self._check_close(token["close"], begin)
                stack.pop()
                if level and not stack:
                    is_closed = True
                    continue
                form, begin = self._collection(opened), opened.at
            elif kind == "string":
                form = self._string(token["string"], begin)
            elif kind == "discard" or kind == "tag":
                self._open("#_" if kind == "discard" else "#", begin, tag=token[kind][1:])
                continue
            elif kind == "char":
                form = self._char(token["char"][1:], begin)
            else:
                form = self._special(token["special"], begin)
            if len(stack) > level:
                top = stack[-1]
                if not top.waits:
                    top.items.append(form)
                    top.places.append(begin)
                    continue
                if (complete := self._tagged(form, begin)) is None:
                    continue
                form, begin = complete
                if len(stack) > level:
                    stack[-1].items.append(form)
                    stack[-1].places.append(begin)
                    continue
            yield Read(form, begin)
        if at < len(text):
            skipped = _SPACE.match(text, at)
            at = skipped.end() if skipped else at
            self._fail(self._unreadable(at), at)
        if stack:
            left = stack[-1]
            self._fail(f"the text ends, and the {_NAMES[left.opener]} that begins here does not", left.at)

    def _open(self, opener: str, at: int, tag: str = "") -> None:
        if len(self._stack) >= DEPTH_MAX:
            self._fail(f"values are nested more than {DEPTH_MAX} deep", at)
        self._stack.append(_Open(opener, at, [], [], tag, opener in ("#", "#_")))

    def _tagged(self, form: Form, at: int) -> tuple[Form, int] | None:
        """A value after tags and discards, with the tags, and where the first of them began. None: it is discarded."""
        while self._stack and self._stack[-1].waits:
            waiting = self._stack.pop()
            if waiting.opener == "#_":
                return None
            form, at = Tagged(waiting.tag, form), waiting.at
        return form, at

    def _check_close(self, closer: str, at: int) -> _Open:
        if not self._stack:
            self._fail(f"{closer} closes nothing", at)
        opened = self._stack[-1]
        if opened.waits:
            self._fail(f"the {_NAMES[opened.opener]} that begins here has no value", opened.at)
        if _CLOSES[opened.opener] != closer:
            line, column = place_in(self._text, opened.at)
            expected = _CLOSES[opened.opener]
            began = f"the {_NAMES[opened.opener]} that begins in line {line}, column {column}"
            self._fail(f"got {closer}, expected {expected}, which ends {began}", at)
        return opened

    def _collection(self, opened: _Open) -> Form:
        items = opened.items
        if opened.opener in ("[", "("):
            return tuple(items)
        if opened.opener == "#{":
            found = frozenset(items)
            if len(found) < len(items):
                self._fail_twice(opened, items, "element")
            return found
        if len(items) % 2:
            self._fail(f"the map's last key, {write(items[-1])[:40]}, has no value", opened.places[-1])
        result = Map(zip(items[::2], items[1::2], strict=True))
        if len(result) * 2 < len(items):
            self._fail_twice(opened, items[::2], "key")
        return result

    def _fail_twice(self, opened: _Open, items: list[Form], what: str) -> NoReturn:
        seen: set[Hashable] = set()
        step = 2 if what == "key" else 1
        for number, item in enumerate(items):
            if item in seen:
                self._fail(f"the {what} {write(item)[:40]} is here a second time", opened.places[number * step])
            seen.add(item)
        raise AssertionError(f"{what}s are fewer than they are, and none is there twice")

    def _atom(self, text: str, at: int) -> Form:
        if text[0] == ":":
            if len(text) == 1 or text[1] in ":/" or text.endswith("/"):
                self._fail(f"{text[:40]} is no keyword", at)
            keyword = self._constants[text] = Keyword(text[1:])
            return keyword
        if text[0].isdigit() or (text[0] in "+-" and len(text) > 1 and text[1].isdigit()):
            return self._number(text, at)
        if not _SYMBOL.match(text):
            self._fail(f"{text[:40]} is no value of EDN", at)
        return Symbol(text)

    def _number(self, text: str, at: int) -> Form:
        if len(text) > DIGITS_MAX:
            self._fail(f"a number of {len(text)} characters; expected at most {DIGITS_MAX}", at)
        if _INTEGER.match(text):
            return int(text.rstrip("N"))
        if _FLOAT.match(text):
            return float(text.rstrip("M"))
        if "/" in text:
            self._fail(f"{text[:40]} is a ratio, which EDN does not have", at)
        raise self._error(f"{text[:40]} is no number", at)

    def _string(self, text: str, at: int) -> str:
        if "\\" not in text:
            return text[1:-1]

        def unescaped(match: re.Match[str]) -> str:
            escape = match.group(1)
            if len(escape) == 5:
                return chr(int(escape[1:], 16))
            if escape not in _ESCAPES:
                self._fail(f"\\{escape} in a string is no escape of EDN", at + match.start() + 1)
            return _ESCAPES[escape]

        return _joined_surrogates(_ESCAPE.sub(unescaped, text[1:-1]))

    def _char(self, name: str, at: int) -> Char:
        if len(name) == 1 and not name.isspace():
            return Char(name)
        if name in _CHARS:
            return Char(_CHARS[name])
        if re.fullmatch(r"u[0-9a-fA-F]{4}", name):
            return Char(chr(int(name[1:], 16)))
        raise self._error(f"\\{name.strip()[:40]} is no character", at)

    def _special(self, text: str, at: int) -> float:
        if text not in _SPECIALS:
            self._fail(f"{text[:40]} is none of {', '.join(_SPECIALS)}", at)
        return _SPECIALS[text]

    def _unreadable(self, at: int) -> str:
        if self._text[at] == '"':
            return "the string that begins here does not end"
        return f"{self._text[at : at + 10].splitlines()[0]} is no value of EDN"

    def _fail(self, what: str, at: int) -> NoReturn:
        raise self._error(what, at)

    def _error(self, what: str, at: int) -> EdnError:
        return EdnError(what, *place_in(self._text, at))


def _joined_surrogates(text: str) -> str:
    """Java writes a character beyond U+FFFF as two; a half alone stays, as in Java."""
    return (
        text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass") if _HALF.search(text) else text
    )


_HALF: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_TO_ESCAPE: Final = re.compile(r'["\\\n\r\t]|[\x00-\x1f\x7f]|[\ud800-\udfff]')
_WRITTEN: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_CHAR_NAMES: Final = {char: name for name, char in _CHARS.items()}


def write(form: Form, depth: int = 0) -> str:
    """One line of EDN. A list or tuple becomes a vector, a dict a map in its own order. TypeError for anything that is
    no value of EDN, ValueError for values nested too deep."""
    if depth > DEPTH_MAX:
        raise ValueError(f"values are nested more than {DEPTH_MAX} deep")
    match form:
        case None:
            return "nil"
        case bool():
            return "true" if form else "false"
        case int():
            return str(form) if -_LONG_MAX <= form < _LONG_MAX else f"{form}N"
        case float():
            return _written_float(form)
        case str():
            return f'"{_TO_ESCAPE.sub(_escaped, form)}"'
        case Keyword(name):
            return f":{name}"
        case Symbol(name):
            return name
        case Char(char):
            return f"\\{_CHAR_NAMES.get(char, char if char.isprintable() else f'u{ord(char):04x}')}"
        case tuple() | list():
            return f"[{' '.join([write(item, depth + 1) for item in form])}]"
        case dict():
            return f"{{{', '.join([f'{write(key, depth + 1)} {write(form[key], depth + 1)}' for key in form])}}}"
        case frozenset() | set():
            return f"#{{{' '.join(sorted(write(item, depth + 1) for item in form))}}}"
        case Tagged(tag, value):
            return f"#{tag} {write(value, depth + 1)}"
    raise TypeError(f"{type(form).__name__} is no value of EDN")


def _escaped(match: re.Match[str]) -> str:
    return _WRITTEN.get(match.group(), f"\\u{ord(match.group()):04x}")


def _written_float(number: float) -> str:
    if math.isfinite(number):
        return repr(number)
    return "##NaN" if math.isnan(number) else "##Inf" if number > 0 else "##-Inf"
