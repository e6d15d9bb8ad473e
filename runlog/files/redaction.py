"""Removes secrets from everything that is written or shown: settings, documents, command lines, URLs, prose. Pure.

There are two methods, and both are used:

- By form: the name of a setting, or the look of a secret in a text (user and password of a URL, `password="..."`, a
  private key).
- By value: a `Redactor` knows the secrets that this process was given. It removes them wherever they appear, also in
  error messages of libraries.

A secret that may also be a part of data, such as `kafka` or `1234`, is *weak*. Searching for it would change data:
names, counts, times. So it is hidden by form everywhere, by value only in texts that other programs wrote, and there
only as a whole word.

Shown by tests/runlog/test_runlog_redaction.py. tests/harness/test_harness_secrets.py plants a secret in every place
that takes one.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote

HIDDEN: Final = "(not shown)"
# Shorter values are hidden only by form. By value, the secret "1" would remove every 1 from every figure.
VALUE_CHARACTERS_MIN: Final = 4
STRONG_CHARACTERS_MIN: Final = 8  # shorter ones are weak: too many of them are words, counts or ports
_WORD_CHARACTERS_MAX: Final = 15  # a longer single word is a generated secret
# A word, a number, or a word with a number: what things of a run are called.
_ORDINARY: Final = re.compile(r"[A-Za-z]*[-_.]?\d*")
_PEM_LINE_CHARACTERS_MIN: Final = 16  # a shorter one is the end of a key and tells nothing by itself
DOCUMENT_DEPTH_MAX: Final = 100  # our readers accept only documents that are less deep

_WORDS: Final = (
    r"password|passwd|passphrase|passcode|secret|token|jaas|credential|api[._-]?key|access[._-]?key|private[._-]?key|"
    r"ssl[._-]keystore[._-]key\b|ssl[._-]key[._-]pem|keystore[._-]certificate[._-]chain|auth[._-]user[._-]info|"
    r"client[._-]assertion|authorization|signature"
)
_SECRET_NAME: Final = re.compile(_WORDS, re.IGNORECASE)
# Settings whose names contain one of the words, but that hold no secret.
_HARMLESS_NAME: Final = re.compile(
    r"token\.endpoint\.url$|client\.credentials\.client\.id$|"
    r"token\.(max\.lifetime|expiry\.(time|check\.interval))\.ms$|password\.encoder\.(iterations|"
    r"key\.length|keyfactory\.algorithm|cipher\.algorithm)$",
    re.IGNORECASE,
)
# Possessive, bounded and anchored at the beginning of a name. So the time is linear in the length of the text, and not
# quadratic.
_QUOTED: Final = r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'"
_NAME: Final = r"(?<![\w.\-])([\w.\-]++)"
_SHOWN: Final = r"(?!\(not shown)"
_JAAS_SETTING: Final = re.compile(rf"{_NAME}(\s*+=\s*+){_SHOWN}({_QUOTED}|[^;\n]*+;?)")
_ASSIGNED: Final = re.compile(rf"{_NAME}(['\"]?\s*+=\s*+){_SHOWN}({_QUOTED}|[^\s,;&'\"]++)")
# After a colon, only a quoted value is a secret. `properties.ssl.key.password: expected a text` is a message.
_SAID: Final = re.compile(rf"{_NAME}(['\"]?\s*+:\s*+)({_QUOTED})")
_SAID_BARE: Final = re.compile(rf"{_NAME}(['\"]?\s*+:\s*+){_SHOWN}({_QUOTED}|[^\s,;&'\"}}\]]++)")
# Up to the last @ before a blank or a quote. Passwords that contain @ or / are wrong in a URL, but common.
_USERINFO: Final = re.compile(r"(\b[a-z][a-z0-9+.\-]{0,30}://)[^\s'\"]{0,500}@", re.IGNORECASE)
_QUERY: Final = re.compile(r"(\b[a-z][a-z0-9+.\-]{0,30}://[^\s'\"?#]{0,500}\?)([^\s'\"#]+)", re.IGNORECASE)
_HARMLESS_QUERY_VALUE: Final = re.compile(r"(?:\d{1,9}|true|false|yes|no)[:,.;)]*", re.IGNORECASE)
_SCHEME: Final = re.compile(r"\b(basic|bearer)\s+[A-Za-z0-9+/=._~\-]{8,}", re.IGNORECASE)
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_FIELD_OF_SECRET: Final = re.compile(rf"{_NAME}(\s*+=\s*+)({_QUOTED}|[^\s;]++)")


# --- by form --------------------------------------------------------------------------------------------------------


def is_secret(name: str) -> bool:
    """A setting whose value must be in no file of a run and on no screen, however its name is written."""
    return _SECRET_NAME.search(name) is not None and _HARMLESS_NAME.search(name) is None


def hidden_setting(name: str, value: str) -> str:
    return HIDDEN if is_secret(name) else hidden_text(value)


def hidden_settings(settings: Mapping[str, str]) -> dict[str, str]:
    return {name: hidden_setting(name, value) for name, value in settings.items()}


def hidden_text(text: str) -> str:
    """A text, a line of a log or a URL, without everything that has the form of a secret."""
    if "PRIVATE KEY-----" in text:
        text = _PRIVATE_KEY.sub(HIDDEN, text)
    if "://" in text:
        text = _QUERY.sub(lambda match: match[1] + _hidden_query(match[2]), _USERINFO.sub(rf"\1{HIDDEN}@", text))
    if _SECRET_NAME.search(text):
        if "jaas" in text.lower():  # its value contains blanks
            text = _JAAS_SETTING.sub(
                lambda match: _without_value(match) if "jaas" in match[1].lower() else match[0], text
            )
        text = _ASSIGNED.sub(_without_value, text)
        text = _SAID.sub(_without_value, text)
    return _SCHEME.sub(rf"\1 {HIDDEN}", text)


def _without_value(match: re.Match[str]) -> str:
    return match[0] if not is_secret(match[1]) else f"{match[1]}{match[2]}{HIDDEN}"


def _hidden_query(query: str) -> str:
    parts = []
    for part in query.split("&"):
        name, equals, value = part.partition("=")
        is_shown = not equals or (_HARMLESS_QUERY_VALUE.fullmatch(value) and not is_secret(name))
        parts.append(part if is_shown else f"{name}={HIDDEN}")
    return "&".join(parts)


def hidden_assignment(text: str) -> str:
    """`key=value` as `--set` takes it: the value may be YAML."""
    name, equals, _ = text.partition("=")
    if equals and is_secret(name):
        return f"{name}={HIDDEN}"
    return _SAID_BARE.sub(_without_value, hidden_text(text))


def hidden_arguments(words: Sequence[str]) -> list[str]:
    """A command line, word by word; an option and its value may be one word or two."""
    shown: list[str] = []
    previous = ""
    for word in words:
        option, equals, value = word.partition("=")
        if previous.startswith("--") and "=" not in previous and is_secret(previous):
            shown.append(HIDDEN)
        elif option.startswith("--") and equals:
            shown.append(f"{option}={HIDDEN if is_secret(option) else hidden_assignment(value)}")
        else:
            shown.append(hidden_assignment(word))
        previous = word
    return shown


def hidden_document(value: Any, name: str = "", depth: int = 0) -> Any:
    """Any JSON or YAML document. The name of a key decides about everything below it. The result has new mappings and
    lists."""
    if depth > DOCUMENT_DEPTH_MAX:
        return HIDDEN
    if is_secret(name):
        return value if value is None or isinstance(value, bool) else HIDDEN
    if isinstance(value, Mapping):
        return {key: hidden_document(item, str(key), depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [hidden_document(item, name, depth + 1) for item in value]
    return hidden_text(value) if isinstance(value, str) else value


def has_hidden(value: Any) -> bool:
    """Whether something was removed from the document. Then it cannot be run without changes."""
    if isinstance(value, Mapping):
        return any(has_hidden(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(has_hidden(item) for item in value)
    return isinstance(value, str) and HIDDEN in value


# --- by value -------------------------------------------------------------------------------------------------------


def secrets_in(value: Any, name: str = "", depth: int = 0) -> Iterator[str]:
    """Every secret in the document, found by its form."""
    if depth > DOCUMENT_DEPTH_MAX:
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from secrets_in(item, name if is_secret(name) else str(key), depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from secrets_in(item, name, depth + 1)
    elif isinstance(value, str) or (value is not None and not isinstance(value, bool)):
        text = str(value)
        if is_secret(name):
            yield text
        yield from _secrets_in_text(text)


def secrets_in_arguments(words: Sequence[str]) -> Iterator[str]:
    previous = ""
    for word in words:
        for text in (word, word.partition("=")[2]) if word.startswith("--") else (word,):
            name, equals, value = text.partition("=")
            if equals and is_secret(name):
                yield value
                yield from secrets_in(value, name)
            yield from _secrets_in_text(text)
            yield from (_unquoted(match[3]) for match in _SAID_BARE.finditer(text) if is_secret(match[1]))
        if previous.startswith("--") and "=" not in previous and is_secret(previous):
            yield word
        previous = word


def _secrets_in_text(text: str) -> Iterator[str]:
    for match in _USERINFO.finditer(text):
        userinfo = match[0].partition("://")[2][:-1]
        yield userinfo.partition(":")[2] or userinfo
    for match in _QUERY.finditer(text):
        for part in match[2].split("&"):
            name, _, value = part.partition("=")
            if is_secret(name):
                yield value
    for pattern in (_FIELD_OF_SECRET, _SAID):
        for match in pattern.finditer(text):
            if is_secret(match[1]):
                yield _unquoted(match[3])
    for match in _PRIVATE_KEY.finditer(text):
        for line in match[0].replace("\\n", "\n").splitlines():
            if not line.startswith("-----") and len(line) >= _PEM_LINE_CHARACTERS_MIN:
                yield line


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text[:1] in ("'", '"') and len(text) > 1 else text


class Redactor:
    """Knows the secrets that this process was given. Removes them, and everything that has the form of a secret."""

    def __init__(self, secrets: Iterable[str] = (), *, names: Iterable[str] = ()) -> None:
        """`names`: what things of the run are called. A secret that is a part of one of them is weak."""
        self._names = tuple(name.lower() for name in names)
        self._secrets: tuple[str, ...] = ()
        self._weak: frozenset[str] = frozenset()
        self._weak_words: re.Pattern[str] | None = None
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        """Hide these from now on, too."""
        found: set[str] = set(self._secrets)
        weak: set[str] = set(self._weak)
        for secret in secrets:
            for value in {secret, secret.strip(), unquote(secret)} - {"", HIDDEN}:
                if self._is_weak(value):
                    weak.add(value)
                else:
                    found |= _spellings(value)
        # The longest first, because one secret may be the beginning of another.
        self._secrets = tuple(sorted(found, key=lambda value: (-len(value), value)))
        self._weak = frozenset(weak)
        words = sorted(
            (word for word in weak if len(word) >= VALUE_CHARACTERS_MIN), key=lambda word: (-len(word), word)
        )
        self._weak_words = (
            re.compile(rf"(?<![\w.\-/@])(?:{'|'.join(map(re.escape, words))})(?![\w\-/@]|\.\w)") if words else None
        )

    def _is_weak(self, value: str) -> bool:
        if len(value) < STRONG_CHARACTERS_MIN:
            return True
        if len(value) <= _WORD_CHARACTERS_MAX and _ORDINARY.fullmatch(value):
            return True
        return any(value.lower() in name for name in self._names)

    @property
    def weak(self) -> int:
        """How many secrets are too weak to be searched for in data."""
        return len(self._weak)

    @classmethod
    def of(cls, *documents: Any, arguments: Sequence[str] = (), names: Iterable[str] = ()) -> Redactor:
        return cls([*secrets_in(list(documents)), *secrets_in_arguments(arguments)], names=names)

    @property
    def encoded(self) -> tuple[bytes, ...]:
        """The secrets that may be searched for in any file, as bytes."""
        return tuple(secret.encode("utf-8", "surrogatepass") for secret in self._secrets)

    @property
    def encoded_words(self) -> tuple[bytes, ...]:
        """Those that may be searched for in texts of other programs alone, with `foreign_text`."""
        words = (word for word in self._weak if len(word) >= VALUE_CHARACTERS_MIN)
        return tuple(word.encode("utf-8", "surrogatepass") for word in sorted(words))

    def text(self, text: str) -> str:
        """A text of ours, in which a weak secret stands for something else."""
        return hidden_text(self.values_out(text))

    def foreign_text(self, text: str) -> str:
        """A text of a library or of another program: without weak secrets that are whole words of it, too."""
        text = self.text(text)
        return text if self._weak_words is None else self._weak_words.sub(HIDDEN, text)

    def values_out(self, text: str) -> str:
        """Removes secrets only by value. For a file whose form must not change."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, HIDDEN)
        return text

    def document(self, value: Any) -> Any:
        return self._values_out_of(hidden_document(value))

    def _values_out_of(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.values_out(str(key)): self._values_out_of(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._values_out_of(item) for item in value]
        return self.values_out(value) if isinstance(value, str) else value

    def arguments(self, words: Sequence[str]) -> list[str]:
        return [self.values_out(word) for word in hidden_arguments(words)]

    def exception(self, error: BaseException) -> None:
        """Removes secrets from the error and from its causes, in place. So the error can be shown."""
        seen: set[int] = set()
        waiting: list[BaseException | None] = [error]
        while waiting:
            current = waiting.pop()
            if current is None or id(current) in seen:
                continue
            seen.add(id(current))
            current.args = tuple(self.foreign_text(item) if isinstance(item, str) else item for item in current.args)
            waiting += [current.__cause__, current.__context__]


def _spellings(secret: str) -> set[str]:
    """How other software may write a secret: in JSON, in a URL, in a quoted field, in Basic authentication."""
    quoted = secret.replace("\\", "\\\\").replace('"', '\\"')
    encoded = base64.b64encode(secret.encode("utf-8", "surrogatepass")).decode()
    found = {secret, quoted, json.dumps(secret)[1:-1], repr(secret)[1:-1], quote(secret, errors="replace")}
    found.add(quote(secret, safe="", errors="replace"))
    return {value for value in (*found, encoded) if len(value) >= VALUE_CHARACTERS_MIN}
