"""Kafka's properties file, and what was set at run time, to NodeConfig.

Owns the parsers and the checks. A key that Kafka or we do not know is reported with the nearest known one and ignored,
as Kafka does; a value that cannot be used is a ConfigError with file and line.
Shown by tests/broker_node/test_node_config.py.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from broker.controller.broker_configs import DYNAMIC_BROKER_CONFIGS
from broker.controller.topic_configs import Effect
from broker.kafka_settings import kafka_settings
from broker.node.settings.broker_settings import asks_for_nothing, support_of
from broker.node.settings.config import COARSER, Address, NodeConfig, key_of, setting_fields
from broker.node.settings.security import LISTENER, SecurityError, is_listener_setting, security_of
from broker.wire import addresses

# Which replicas consumers read from (KIP-392).
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_ONLY = "org.apache.kafka.common.replica.LeaderSelector"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class ConfigError(Exception):
    """A value that the broker cannot start with. The message begins with FILE:LINE."""


def with_dynamic(config: NodeConfig, overrides: Mapping[str, str]) -> NodeConfig:
    """`config` with what IncrementalAlterConfigs set for this broker at run time (KIP-226); values were checked."""
    known = {key_of(each.name): each for each in setting_fields()}
    values: dict[str, object] = {}
    of_listeners = {key: text for key, text in overrides.items() if key.startswith(LISTENER)}
    if of_listeners:
        values["listener_overrides"] = {**config.listener_overrides, **of_listeners}
    for key, text in overrides.items():
        if key in known and key in DYNAMIC_BROKER_CONFIGS:
            values[known[key].name] = _parser(known[key].name, known[key].type)(text)
    return replace(config, **values) if values else config  # type: ignore[arg-type]  # each from its field's parser


def parse_address(text: str) -> Address:
    host, port = addresses.parse_address(text, allow_zero=True)
    return Address(host=host or "127.0.0.1", port=port)


def _listeners(text: str) -> dict[str, Address]:
    found = {}
    for part in _items(text):
        name, separator, address = part.partition("://")
        if not separator:
            raise ValueError(f"expected NAME://HOST:PORT, got {part!r}")
        found[name.strip().upper()] = parse_address(address)
    return found


def _nodes(text: str) -> dict[int, Address]:
    found = {}
    for part in _items(text):
        node, separator, address = part.partition("@")
        if not separator or not node.strip().isdigit():
            raise ValueError(f"expected ID@HOST:PORT, got {part!r}")
        found[int(node)] = parse_address(address)
    return found


def _items(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(f"expected true or false, got {text!r}")
    return text.strip().lower() == "true"


def _choice(*allowed: str) -> Callable[[str], str]:
    """One of these, in any case."""

    def parse(text: str) -> str:
        if text.strip().lower() not in allowed:
            raise ValueError(f"expected one of {', '.join(allowed)}, got {text!r}")
        return text.strip().lower()

    return parse


def _choices(*allowed: str, needed: str | None = None) -> Callable[[str], str]:
    """A comma-separated list of some of these, in lower case; `needed` must be among them."""

    def parse(text: str) -> str:
        given = [item.lower() for item in _items(text)]
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


def _directory(text: str) -> Path:
    directories = _items(text)
    if len(directories) != 1:
        raise ValueError(f"expected one directory, got {text!r}: several log.dirs are not supported")
    return Path(directories[0])


_PARSERS: dict[str, Callable[[str], object]] = {
    "controller_quorum_voters": _nodes,
    "harness_routes_internal": _nodes,
    "harness_routes_controller": _nodes,
    "listeners": _listeners,
    "advertised_listeners": _listeners,
    "log_dirs": _directory,
    "authorizer_class_name": _authorizer,
    "replica_selector_class": _selector,
    "super_users": _principals,
    "harness_journal_path": Path,
    "harness_clock_control": Path,
    "harness_telemetry_path": Path,
    "harness_disk_faults": Path,
    "replication_quota_window_num": lambda text: _positive(text),
    "replication_quota_window_size_seconds": lambda text: _positive(text),
    "offsets_topic_compression_codec": _codec,
    "offsets_topic_num_partitions": lambda text: _positive(text),
    "offsets_topic_replication_factor": lambda text: _positive(text),
    "transaction_state_log_num_partitions": lambda text: _positive(text),
    "transaction_state_log_replication_factor": lambda text: _positive(text),
    "transaction_state_log_min_isr": lambda text: _positive(text),
    "offsets_retention_check_interval_ms": lambda text: _positive(text),
    "offsets_load_buffer_size": lambda text: _positive(text),
    "delegation_token_max_lifetime_ms": lambda text: _positive(text),
    "delegation_token_expiry_time_ms": lambda text: _positive(text),
    "delegation_token_expiry_check_interval_ms": lambda text: _positive(text),
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


def _parser(name: str, kind: object) -> Callable[[str], object]:
    if name in _PARSERS:
        return _PARSERS[name]
    if kind == "bool":
        return _boolean
    if kind == "float":
        return _number
    if kind == "int":
        return _negative_too if name in _MAY_BE_NEGATIVE else _natural
    return str


def _natural(text: str) -> int:
    value = _negative_too(text)
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


def _negative_too(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"expected a whole number, got {text!r}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    key: str
    value: str
    line: int


def parse_properties(text: str, *, source: str) -> list[Property]:
    """`key=value` lines, as Java reads them: # and ! begin a comment, a line with a backslash at its end goes on, and
    in a value \\n, \\t, \\r, \\f, \\uXXXX and a backslash before any other character are escapes."""
    found = []
    for number, line in _logical_lines(text):
        key, separator, value = line.partition("=")
        if not separator:
            raise ConfigError(f"{source}:{number}: expected key=value, got {line!r}")
        found.append(Property(key=key.strip(), value=_ESCAPE.sub(_unescaped, value.strip()), line=number))
    return found


_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def _unescaped(found: re.Match[str]) -> str:
    what = found.group(1)
    return chr(int(what[1:], 16)) if len(what) > 1 else _ESCAPED.get(what, what)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number of its first line, the line) without comments and empty ones."""
    begun, number_begun = "", 0
    for number, raw in enumerate([*text.splitlines(), ""], start=1):
        line = raw.strip()
        if not begun and (not line or line[0] in "#!"):
            continue
        number_begun = number_begun if begun else number
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        begun += line[:-1] if goes_on else line
        if not goes_on:
            yield number_begun, begun
            begun = ""


def load_config(path: Path) -> tuple[NodeConfig, list[str]]:
    """The configuration and the warnings. Raises ConfigError; OSError when the file cannot be read."""
    properties = parse_properties(path.read_text(), source=str(path))
    known = {key_of(each.name): each for each in setting_fields()}
    values: dict[str, object] = {}
    warnings = []
    lines: dict[str, int] = {}
    of_listeners: dict[str, str] = {}
    for prop in properties:
        lines[prop.key] = prop.line
        if prop.key in known:
            setting = known[prop.key]
            try:
                values[setting.name] = _parser(setting.name, setting.type)(prop.value)
            except ValueError as error:
                raise ConfigError(f"{path}:{prop.line}: {prop.key}: {error}") from None
        if prop.key.startswith(LISTENER) and is_listener_setting(prop.key):
            of_listeners[prop.key.lower()] = prop.value
            continue
        support = support_of(prop.key)
        if support is None:
            warnings.append(f"{path}:{prop.line}: unknown key {prop.key}, ignored{_nearest(prop.key, known)}")
        elif support.effect is Effect.WITHOUT_EFFECT:
            warnings.append(f"{path}:{prop.line}: {prop.key} has no effect: {support.note}")
        elif support.effect is Effect.REFUSED and not asks_for_nothing(prop.key, prop.value):
            raise ConfigError(f"{path}:{prop.line}: {prop.key}={prop.value} is not supported: {support.note}")
    _apply_coarser(path, properties, values)
    values["listener_overrides"] = of_listeners
    config = _complete(path, values, lines)
    return config, warnings + _check_security(path, config, lines)


def _apply_coarser(path: Path, properties: list[Property], values: dict[str, object]) -> None:
    """log.retention.hours and the like, where the setting in milliseconds is not given."""
    given = {prop.key: prop for prop in properties}
    for key, coarser in COARSER.items():
        name = key.replace(".", "_")
        for other, factor_ms in coarser:
            if name in values or other not in given:
                continue
            try:
                value = _negative_too(given[other].value)
            except ValueError as error:
                raise ConfigError(f"{path}:{given[other].line}: {other}: {error}") from None
            values[name] = value * factor_ms if value >= 0 else -1
            break


def _check_plain(path: Path, lines: Mapping[str, int], values: Mapping[str, object]) -> None:
    """Roles and protocols that the process does not have are errors, not wishes."""
    roles = set(_items(str(values.get("process_roles", "broker,controller"))))
    if roles != {"broker", "controller"}:
        line = lines["process.roles"]
        raise ConfigError(f"{path}:{line}: process.roles: expected broker,controller, got {','.join(sorted(roles))}")


def _check_security(path: Path, config: NodeConfig, lines: Mapping[str, int]) -> list[str]:
    """What each listener demands can be had. Loopback only unless it is authenticated or we are told otherwise. The
    result are warnings."""
    warnings = []
    for name, address in config.listeners.items():
        try:
            security = security_of(config, name)
        except SecurityError as error:
            line = lines.get(error.key, lines["listeners"])
            raise ConfigError(f"{path}:{line}: {error.key}: {error.problem} (listener {name})") from None
        is_loopback = address.host in ("localhost", "::1") or address.host.startswith("127.")
        if is_loopback or security.is_authenticated:
            continue
        where = f"{path}:{lines['listeners']}: listeners: {name} at {address} can be reached from other machines"
        if not config.harness_allow_remote:
            raise ConfigError(
                f"{where}, and there is no authentication; use 127.0.0.1, SASL or ssl.client.auth=required, or say "
                "harness.allow.remote=true"
            )
        warnings.append(f"{where}: harness.allow.remote=true lets ANYBODY there read, write and delete everything")
    return warnings


def _name_inter_broker_listener(path: Path, values: dict[str, object], lines: Mapping[str, int]) -> None:
    """security.inter.broker.protocol: the listener between brokers is the one with the name of the protocol."""
    if "security_inter_broker_protocol" not in values:
        return
    if "inter_broker_listener_name" in values:
        line = lines["security.inter.broker.protocol"]
        raise ConfigError(f"{path}:{line}: security.inter.broker.protocol: inter.broker.listener.name is given too")
    values["inter_broker_listener_name"] = values["security_inter_broker_protocol"]


def _nearest(key: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(key, [*known, *kafka_settings("broker")], n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _complete(path: Path, values: dict[str, object], lines: Mapping[str, int]) -> NodeConfig:
    for required in ("node_id", "controller_quorum_voters", "listeners", "log_dirs"):
        if required not in values:
            raise ConfigError(f"{path}:1: {key_of(required)} is missing")
    listeners = values["listeners"]
    assert isinstance(listeners, dict)
    advertised = values.get("advertised_listeners") or {}
    assert isinstance(advertised, dict)
    controller = str(values.get("controller_listener_names", "CONTROLLER"))
    _name_inter_broker_listener(path, values, lines)
    values["advertised_listeners"] = {
        name: advertised.get(name, address) for name, address in listeners.items() if name != controller
    }
    _check_plain(path, lines, values)
    voters = values["controller_quorum_voters"]
    assert isinstance(voters, dict)
    values.setdefault("offsets_topic_replication_factor", max(1, min(3, len(voters))))
    replicas = values.setdefault("transaction_state_log_replication_factor", max(1, min(3, len(voters))))
    assert isinstance(replicas, int)
    values.setdefault("transaction_state_log_min_isr", min(2, replicas))
    config = NodeConfig(**values)  # type: ignore[arg-type]  # each value came from the parser of its field
    for name, key in (
        (config.internal_listener, "inter.broker.listener.name"),
        (controller, "controller.listener.names"),
    ):
        if name not in listeners:
            line = lines.get(key, lines["listeners"])
            raise ConfigError(f"{path}:{line}: {key}: there is no listener {name} in {sorted(listeners)}")
    unknown = set(advertised) - set(listeners)
    if unknown:
        line = lines["advertised.listeners"]
        raise ConfigError(f"{path}:{line}: advertised.listeners: {sorted(unknown)} not among listeners")
    if config.node_id not in config.controller_quorum_voters:
        line = lines["controller.quorum.voters"]
        raise ConfigError(f"{path}:{line}: controller.quorum.voters: node.id {config.node_id} is not among the voters")
    return config
