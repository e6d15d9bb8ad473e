"""Parses the texts of a broker's settings. Each setting has a parser, by its field in NodeConfig.

If a text is no valid value, the parser raises ValueError, which says what was expected.
Shown by tests/broker_node/test_node_config.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from broker.node.settings.config import Address
from broker.wire import addresses

# The classes that choose the replica from which a consumer reads (KIP-392).
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_ONLY = "org.apache.kafka.common.replica.LeaderSelector"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


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


def _choice(*allowed: str) -> Callable[[str], str]:
    """A parser for one of these values, in upper or lower case."""

    def parse(text: str) -> str:
        if text.strip().lower() not in allowed:
            raise ValueError(f"expected one of {', '.join(allowed)}, got {text!r}")
        return text.strip().lower()

    return parse


def _choices(*allowed: str, needed: str | None = None) -> Callable[[str], str]:
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


def _authorizer(text: str) -> str:
    if text not in ("", STANDARD_AUTHORIZER):
        raise ValueError(
            f"expected nothing or {STANDARD_AUTHORIZER}, got {text!r}: other Java classes cannot be loaded"
        )
    return text


def _selector(text: str) -> str:
    if text not in ("", RACK_AWARE, LEADER_ONLY):
        raise ValueError(
            f"expected nothing, {RACK_AWARE} or {LEADER_ONLY}, got {text!r}: other classes cannot be loaded"
        )
    return text


def _principals(text: str) -> str:
    for item in text.split(";"):
        kind, separator, _ = item.strip().partition(":")
        if item.strip() and not (kind and separator):
            raise ValueError(f"expected TYPE:NAME;TYPE:NAME as in User:admin, got {item.strip()!r}")
    return text


def _codec(text: str) -> int:
    if text not in ("0", "1", "2", "3", "4"):
        raise ValueError(f"expected 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd), got {text!r}")
    return int(text)


def _positive(text: str) -> int:
    value = _natural(text)
    if value < 1:
        raise ValueError(f"expected a number of at least 1, got {text!r}")
    return value


def _directories(text: str) -> tuple[Path, ...]:
    directories = tuple(dict.fromkeys(map(Path, items_of(text))))
    if not directories:
        raise ValueError(f"expected directories, separated by commas, got {text!r}")
    return directories


_PARSERS: dict[str, Callable[[str], object]] = {
    "controller_quorum_voters": _nodes,
    "harness_routes_internal": _nodes,
    "harness_routes_controller": _nodes,
    "listeners": _listeners,
    "advertised_listeners": _listeners,
    "log_dirs": _directories,
    "cordoned_log_dirs": lambda text: tuple(items_of(text)),
    "authorizer_class_name": _authorizer,
    "replica_selector_class": _selector,
    "super_users": _principals,
    "harness_journal_path": Path,
    "harness_clock_control": Path,
    "harness_disk_faults": Path,
    "alter_log_dirs_replication_quota_window_num": lambda text: _positive(text),
    "alter_log_dirs_replication_quota_window_size_seconds": lambda text: _positive(text),
    "replication_quota_window_num": lambda text: _positive(text),
    "replication_quota_window_size_seconds": lambda text: _positive(text),
    "offsets_topic_compression_codec": _codec,
    "offsets_topic_num_partitions": lambda text: _positive(text),
    "offsets_topic_replication_factor": lambda text: _positive(text),
    "transaction_state_log_num_partitions": lambda text: _positive(text),
    "transaction_state_log_replication_factor": lambda text: _positive(text),
    "transaction_state_log_min_isr": lambda text: _positive(text),
    "share_coordinator_state_topic_compression_codec": _codec,
    "share_coordinator_state_topic_num_partitions": lambda text: _positive(text),
    "share_coordinator_state_topic_replication_factor": lambda text: _positive(text),
    "share_coordinator_state_topic_min_isr": lambda text: _positive(text),
    "share_coordinator_load_buffer_size": lambda text: _positive(text),
    "offsets_retention_check_interval_ms": lambda text: _positive(text),
    "offsets_load_buffer_size": lambda text: _positive(text),
    "group_coordinator_rebalance_protocols": _choices("classic", "consumer", needed="classic"),
    "group_consumer_assignors": _choices("uniform", "range"),
    "group_consumer_migration_policy": _choice("bidirectional", "disabled", "downgrade", "upgrade"),
}
_MAY_BE_NEGATIVE = frozenset(
    {
        "log_retention_ms",
        "log_retention_bytes",
        "metadata_max_retention_bytes",
        "metadata_max_retention_ms",
        "log_local_retention_bytes",
        "log_local_retention_ms",
        "compression_gzip_level",
        "compression_zstd_level",
        "queued_max_request_bytes",
    }
)


def parser_of(name: str, kind: object) -> Callable[[str], object]:
    if name in _PARSERS:
        return _PARSERS[name]
    if kind == "bool":
        return _boolean
    if kind == "float":
        return _number
    if kind == "int":
        return whole_number if name in _MAY_BE_NEGATIVE else _natural
    return str


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
