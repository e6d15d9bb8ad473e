"""Makes a NodeConfig from Kafka's properties file and from settings that were changed at run time.

Owns: the checks. java_properties.py knows the syntax of the file, values.py parses the values. As in Kafka, an unknown
key is ignored; a warning names the nearest known key. A value that cannot be used is a ConfigError with file and line.
Shown by tests/broker_node/test_node_config.py.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from broker.controller.broker_configs import DYNAMIC_BROKER_CONFIGS
from broker.controller.topic_configs import Effect
from broker.java_properties import PropertiesError, Property, parse_java_properties
from broker.kafka_settings import kafka_settings
from broker.node.settings.broker_settings import asks_for_nothing, support_of
from broker.node.settings.config import COARSER, SETTINGS, NodeConfig, changed, config_of
from broker.node.settings.sections.section import key_of
from broker.node.settings.security import LISTENER, SecurityError, is_listener_setting, security_of
from broker.node.settings.values import whole_number


class ConfigError(Exception):
    """A value with which the broker cannot start. The message begins with FILE:LINE."""


def with_dynamic(config: NodeConfig, overrides: Mapping[str, str]) -> NodeConfig:
    """`config` with the settings that IncrementalAlterConfigs changed for this broker at run time (KIP-226). The values
    are already checked."""
    values = {
        SETTINGS[key].field.name: SETTINGS[key].parse(text)
        for key, text in overrides.items()
        if key in SETTINGS and key in DYNAMIC_BROKER_CONFIGS
    }
    of_listeners = {key: text for key, text in overrides.items() if key.startswith(LISTENER)}
    if of_listeners:
        config = replace(config, listener_overrides={**config.listener_overrides, **of_listeners})
    return changed(config, **values)


def parse_properties(text: str, *, source: str) -> list[Property]:
    """As Java reads them, with letters beyond ASCII as they are. Raises ConfigError with `source` and the line."""
    try:
        return parse_java_properties(text, is_ascii=False)
    except PropertiesError as error:
        raise ConfigError(f"{source}:{error.line}: {error}") from error


def load_config(path: Path) -> tuple[NodeConfig, list[str]]:
    """Returns the configuration and the warnings. Raises ConfigError, or OSError if the file cannot be read."""
    properties = parse_properties(path.read_text(), source=str(path))
    values: dict[str, object] = {}
    warnings = []
    lines: dict[str, int] = {}
    of_listeners: dict[str, str] = {}
    for prop in properties:
        lines[prop.key] = prop.line
        if prop.key in SETTINGS:
            setting = SETTINGS[prop.key]
            try:
                values[setting.field.name] = setting.parse(prop.value)
            except ValueError as error:
                raise ConfigError(f"{path}:{prop.line}: {prop.key}: {error}") from None
        if prop.key.startswith(LISTENER) and is_listener_setting(prop.key):
            of_listeners[prop.key.lower()] = prop.value
            continue
        support = support_of(prop.key)
        if support is None:
            warnings.append(f"{path}:{prop.line}: unknown key {prop.key}, ignored{_nearest(prop.key)}")
        elif support.effect is Effect.WITHOUT_EFFECT:
            warnings.append(f"{path}:{prop.line}: {prop.key} has no effect: {support.note}")
        elif support.effect is Effect.REFUSED and not asks_for_nothing(prop.key, prop.value):
            raise ConfigError(f"{path}:{prop.line}: {prop.key}={prop.value} is not supported: {support.note}")
    _apply_coarser(path, properties, values)
    given = frozenset(prop.key for prop in properties)
    config = replace(_complete(path, values, lines), listener_overrides=of_listeners, given=given)
    if (problem := config.problem()) is not None:
        line = max((lines[key] for key in problem.keys if key in lines), default=lines.get(problem.implied_by, 1))
        raise ConfigError(f"{path}:{line}: {problem.text}")
    return config, warnings + _check_security(path, config, lines)


def _apply_coarser(path: Path, properties: list[Property], values: dict[str, object]) -> None:
    """Applies log.retention.hours and similar settings if the setting in milliseconds is not given."""
    given = {prop.key: prop for prop in properties}
    for key, coarser in COARSER.items():
        name = key.replace(".", "_")
        for other, factor_ms in coarser:
            if name in values or other not in given:
                continue
            try:
                value = whole_number(given[other].value)
            except ValueError as error:
                raise ConfigError(f"{path}:{given[other].line}: {other}: {error}") from None
            values[name] = value * factor_ms if value >= 0 else -1
            break


def _check_security(path: Path, config: NodeConfig, lines: Mapping[str, int]) -> list[str]:
    """Checks that each listener's security settings can be used. A listener without authentication must be on loopback,
    unless harness.allow.remote allows another address. Returns warnings."""
    warnings = []
    for name, address in config.listening.listeners.items():
        try:
            security = security_of(config, name)
        except SecurityError as error:
            line = lines.get(error.key, lines["listeners"])
            raise ConfigError(f"{path}:{line}: {error.key}: {error.problem} (listener {name})") from None
        is_loopback = address.host in ("localhost", "::1") or address.host.startswith("127.")
        if is_loopback or security.is_authenticated:
            continue
        where = f"{path}:{lines['listeners']}: listeners: {name} at {address} can be reached from other machines"
        if not config.own.harness_allow_remote:
            raise ConfigError(
                f"{where}, and there is no authentication; use 127.0.0.1, SASL or ssl.client.auth=required, or say "
                "harness.allow.remote=true"
            )
        warnings.append(f"{where}: harness.allow.remote=true lets ANYBODY there read, write and delete everything")
    return warnings


def _name_inter_broker_listener(path: Path, values: dict[str, object], lines: Mapping[str, int]) -> None:
    """Applies security.inter.broker.protocol: the listener between brokers is the one with the name of the protocol."""
    if "security_inter_broker_protocol" not in values:
        return
    if "inter_broker_listener_name" in values:
        line = lines["security.inter.broker.protocol"]
        raise ConfigError(f"{path}:{line}: security.inter.broker.protocol: inter.broker.listener.name is given too")
    values["inter_broker_listener_name"] = values["security_inter_broker_protocol"]


def _nearest(key: str) -> str:
    close = difflib.get_close_matches(key, [*SETTINGS, *kafka_settings("broker")], n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _complete(path: Path, values: dict[str, object], lines: Mapping[str, int]) -> NodeConfig:
    if "log_dirs" not in values and values.get("log_dir"):
        values["log_dirs"] = (Path(str(values["log_dir"])),)
    for required in ("node_id", "controller_quorum_voters", "listeners", "log_dirs"):
        if required not in values:
            raise ConfigError(f"{path}:1: {key_of(required)} is missing")
    listeners = values["listeners"]
    assert isinstance(listeners, dict)
    advertised = values.get("advertised_listeners") or {}
    assert isinstance(advertised, dict)
    controller = str(values.get("controller_listener_names", "CONTROLLER"))
    _name_inter_broker_listener(path, values, lines)
    # An unknown name among them stays, and the section refuses it.
    known = {name: address for name, address in {**listeners, **advertised}.items() if name != controller}
    values["advertised_listeners"] = known
    voters = values["controller_quorum_voters"]
    assert isinstance(voters, dict)
    values.setdefault("offsets_topic_replication_factor", max(1, min(3, len(voters))))
    for prefix, min_isr in (
        ("transaction_state_log", "transaction_state_log_min_isr"),
        ("share_coordinator_state_topic", "share_coordinator_state_topic_min_isr"),
    ):
        replicas = values.setdefault(f"{prefix}_replication_factor", max(1, min(3, len(voters))))
        assert isinstance(replicas, int)
        values.setdefault(min_isr, min(2, replicas))
    return config_of(**values)
