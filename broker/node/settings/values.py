"""The values of a broker's settings and their texts: parsers, and `text_of` for the way back.

If a text is no valid value, the parser raises ValueError, which says what was expected.
Shown by tests/broker_node/test_node_config.py and tests/broker_settings/test_settings_sections.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.wire import addresses

LONG_MAX = 2**63 - 1
_EXACT_MAX = 1e16  # above it Python writes a number with an exponent
# The classes that choose the replica from which a consumer reads (KIP-392).
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_ONLY = "org.apache.kafka.common.replica.LeaderSelector"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return addresses.format_address(self.host, self.port)


def text_of(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, Mapping):
        return ",".join(f"{name}={address}" for name, address in value.items())
    if isinstance(value, float):
        if not math.isfinite(value):  # in Java's words
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return repr(value) if abs(value) < _EXACT_MAX else f"{value:.1f}"
    return "" if value is None else str(value)


def parse_address(text: str) -> Address:
    host, port = addresses.parse_address(text, allow_zero=True)
    return Address(host=host or "127.0.0.1", port=port)


def _listeners(text: str) -> dict[str, Address]:
    found = {}
    for part in items_of(text):
        name, separator, address = part.partition("://")
        if not separator:
            raise ValueError(f"expected NAME://HOST:PORT, got {part!r}")
        found[name.strip().upper()] = parse_address(address)
    return found


def _nodes(text: str) -> dict[int, Address]:
    found = {}
    for part in items_of(text):
        node, separator, address = part.partition("@")
        if not separator or not node.strip().isdigit():
            raise ValueError(f"expected ID@HOST:PORT, got {part!r}")
        found[int(node)] = parse_address(address)
    return found


def items_of(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(f"expected true or false, got {text!r}")
    return text.strip().lower() == "true"


def choice(*allowed: str) -> Callable[[str], str]:
    """A parser for one of these values, in upper or lower case."""

    def parse(text: str) -> str:
        if text.strip().lower() not in allowed:
            raise ValueError(f"expected one of {', '.join(allowed)}, got {text!r}")
        return text.strip().lower()

    return parse


def choices(*allowed: str, needed: str | None = None) -> Callable[[str], str]:
    """A parser for a comma-separated list of some of these values. The result is in lower case. `needed` must be in the
    list."""

    def parse(text: str) -> str:
        given = [item.lower() for item in items_of(text)]
        wrong = [item for item in given if item not in allowed]
        if wrong or not given or (needed is not None and needed not in given):
            hint = "" if needed is None else f" with {needed}"
            raise ValueError(f"expected some of {', '.join(allowed)}{hint}, got {text!r}")
        return ",".join(given)

    return parse


def authorizer(text: str) -> str:
    if text not in ("", STANDARD_AUTHORIZER):
        raise ValueError(
            f"expected nothing or {STANDARD_AUTHORIZER}, got {text!r}: other Java classes cannot be loaded"
        )
    return text


def selector(text: str) -> str:
    if text not in ("", RACK_AWARE, LEADER_ONLY):
        raise ValueError(
            f"expected nothing, {RACK_AWARE} or {LEADER_ONLY}, got {text!r}: other classes cannot be loaded"
        )
    return text


def principals(text: str) -> str:
    for item in text.split(";"):
        kind, separator, _ = item.strip().partition(":")
        if item.strip() and not (kind and separator):
            raise ValueError(f"expected TYPE:NAME;TYPE:NAME as in User:admin, got {item.strip()!r}")
    return text


def codec(text: str) -> int:
    if text not in ("0", "1", "2", "3", "4"):
        raise ValueError(f"expected 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd), got {text!r}")
    return int(text)


def roles(text: str) -> str:
    """Other roles than those of this process are an error. The text stays as it is."""
    given = set(items_of(text))
    if given != {"broker", "controller"}:
        raise ValueError(f"expected broker,controller, got {','.join(sorted(given))}")
    return text


def positive(text: str) -> int:
    value = _natural(text)
    if value < 1:
        raise ValueError(f"expected a number of at least 1, got {text!r}")
    return value


def _directories(text: str) -> tuple[Path, ...]:
    directories = tuple(dict.fromkeys(map(Path, items_of(text))))
    if not directories:
        raise ValueError(f"expected directories, separated by commas, got {text!r}")
    return directories


def _natural(text: str) -> int:
    value = whole_number(text)
    if value < 0:
        raise ValueError(f"expected a number of at least 0, got {text!r}")
    return value


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"expected a number, got {text!r}") from None
    if value < 0:
        raise ValueError(f"expected a number of at least 0, got {text!r}")
    return value


def whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"expected a whole number, got {text!r}") from None


# How a text is read whose field names no parser of its own. The key is the type, as it is written there.
BY_TYPE: Final[Mapping[str, Callable[[str], object]]] = {
    "bool": _boolean,
    "float": _number,
    "int": _natural,
    "str": str,
    "Path | None": Path,
    "tuple[Path, ...]": _directories,
    "tuple[str, ...]": lambda text: tuple(items_of(text)),
    "Mapping[int, Address]": _nodes,
    "Mapping[str, Address]": _listeners,
}
