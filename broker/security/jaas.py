"""Parses `sasl.jaas.config` of brokers and clients, as Kafka's JaasConfig does: one login module.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="…" user_alice="…";

Shown by tests/broker_security/test_security_jaas.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
MODULES: Final[Mapping[str, str]] = {
    "PLAIN": PLAIN,
    "SCRAM-SHA-256": SCRAM,
    "SCRAM-SHA-512": SCRAM,
    "OAUTHBEARER": OAUTHBEARER,
}
FORM: Final = 'MODULE required NAME="VALUE" ...;'
_FLAGS: Final = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
# Quoted text (a backslash protects the next character), comments, the two signs, words.
_TOKEN: Final = re.compile(
    r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|(//[^\n]*|/\*.*?\*/|\s+)|([=;])|([^\s=;\"']+)", re.S
)
_ESCAPED: Final = re.compile(r"\\(.)", re.S)
_CONTROL: Final = {"n": "\n", "t": "\t", "r": "\r"}
_Token = tuple[str, bool]  # text, and whether it is one of the two signs


_USER: Final = "user_"


@dataclass(frozen=True, slots=True)
class JaasEntry:
    module: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def users(self) -> dict[str, str]:
        """For PLAIN: user -> password, from the options user_NAME."""
        return {name[len(_USER) :]: value for name, value in self.options.items() if name.startswith(_USER)}


def parse_jaas(text: str) -> JaasEntry:
    """Raises ValueError that says what is wrong, and in which part. It shows no value of an option."""
    tokens = _tokens(text)
    modules: list[JaasEntry] = []
    while tokens:
        name = _word(tokens, "the class of a login module")
        flag = _word(tokens, "a flag")
        if flag.upper() not in _FLAGS:
            raise _wrong(f"expected one of {', '.join(each.lower() for each in _FLAGS)} after {name}")
        modules.append(JaasEntry(name, _options(tokens)))
    if len(modules) != 1:
        raise _wrong(f"expected one login module, got {len(modules)}")
    return modules[0]


def _options(tokens: list[_Token]) -> dict[str, str]:
    options: dict[str, str] = {}
    while tokens and tokens[0] != (";", True):
        name = _word(tokens, "an option")
        if not tokens or tokens.pop(0) != ("=", True):
            raise _wrong(f"expected = after the option {name}")
        options[name] = _word(tokens, f"a value of {name}")
    if not tokens:
        raise _wrong("expected ; at the end")
    tokens.pop(0)
    return options


def _word(tokens: list[_Token], what: str) -> str:
    if not tokens or tokens[0][1]:
        raise _wrong(f"expected {what}" + (f", got {tokens[0][0]}" if tokens else ", got its end"))
    return tokens.pop(0)[0]


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _wrong(f"a quotation mark at character {position + 1} is not closed")
        position = match.end()
        if match[3] is not None:
            continue
        quoted = match[1] if match[1] is not None else match[2]
        if quoted is not None:
            found.append((_ESCAPED.sub(lambda each: _CONTROL.get(each[1], each[1]), quoted), False))
        else:
            found.append((match[4] or match[5], match[4] is not None))
    return found


def _wrong(message: str) -> ValueError:
    return ValueError(f"{message}; its form is {FORM}")
