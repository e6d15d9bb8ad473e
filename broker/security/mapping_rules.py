"""`ssl.principal.mapping.rules`: from the subject of a certificate to the name of a user (KIP-371).

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),OU=.*$/$1@example/L,DEFAULT

The first rule whose pattern matches the whole subject counts. L or U at the end of a rule changes the case. DEFAULT is
the unchanged subject. Patterns run in RE2, because anybody can choose a subject. With it, Python's own engine could
take exponential time.
Shown by tests/broker_security/test_security_names.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import re2

_RULE = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_DEFAULT = "DEFAULT"
_EXPECTED = "expected DEFAULT or RULE:PATTERN/REPLACEMENT/[L|U], separated by commas"


class NoRuleError(Exception):
    """No rule matches the subject of this certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    pattern: str
    replacement: str
    case: str  # "L", "U" or ""

    def apply(self, subject: str) -> str | None:
        found = re2.fullmatch(self.pattern, subject)
        if found is None:
            return None
        name = _expanded(self.replacement, (found.group(0), *found.groups()))
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


class PrincipalMapper:
    """Raises ValueError for a text that is not a list of rules."""

    def __init__(self, rules: str = _DEFAULT) -> None:
        self._rules = _parse(rules)

    def name_of(self, subject: str) -> str:
        """Raises NoRuleError."""
        for rule in self._rules:
            name = subject if rule is None else rule.apply(subject)
            if name is not None:
                return name
        raise NoRuleError(f"no rule of ssl.principal.mapping.rules fits {subject!r}")


def _parse(text: str) -> tuple[_Rule | None, ...]:
    """None stands for DEFAULT."""
    rules: list[_Rule | None] = []
    position, text = 0, text.strip()
    while position < len(text):
        if text.startswith(_DEFAULT, position):
            rules.append(None)
            position += len(_DEFAULT)
        else:
            found = _RULE.match(text, position)
            if found is None:
                raise ValueError(f"{_EXPECTED}, got {text[position:]!r}")
            rules.append(_rule(*found.groups()))
            position = found.end()
        rest = text[position:].lstrip()
        if rest and not rest.startswith(","):
            raise ValueError(f"{_EXPECTED}, got {rest!r} after a rule")
        position = len(text) - len(rest[1:].lstrip())
    return tuple(rules)


def _rule(pattern: str, replacement: str, case: str) -> _Rule:
    try:
        re2.compile(pattern)
    except re2.error as error:
        raise ValueError(f"the pattern {pattern!r} is none: {error}") from None
    return _Rule(pattern=pattern, replacement=replacement, case=case)


def _expanded(replacement: str, groups: tuple[str | None, ...]) -> str:
    r"""Expand as Java does: `$1` is a group, `\x` is x. As in Kafka, a reference to an unknown group stays as it is."""
    out, position = [], 0
    while position < len(replacement):
        character = replacement[position]
        position += 1
        if character == "\\" and position < len(replacement):
            out.append(replacement[position])
            position += 1
        elif character == "$" and position < len(replacement) and replacement[position].isascii():
            end = _end_of_reference(replacement, position, len(groups))
            if end == position:
                out.append(character)
            else:
                out.append(groups[int(replacement[position:end])] or "")
            position = end
        else:
            out.append(character)
    return "".join(out)


def _end_of_reference(replacement: str, start: int, groups: int) -> int:
    """Where the number of the group ends. It takes digits as long as there is such a group."""
    end = start
    while end < len(replacement) and replacement[end].isdigit() and int(replacement[start : end + 1]) < groups:
        end += 1
    return end
