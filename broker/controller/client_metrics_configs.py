"""Subscriptions of clients' metrics (KIP-714): what counts as a valid setting of one.

A subscription says which metrics are wanted (prefixes of their names), how often, and from which clients. Regular
expressions select the clients by their attributes. They are RE2's, whose time is linear in the length of the text. So
no pattern can stall a broker. RE2 lacks some features of Java's (look-ahead, back references). A pattern that uses them
is refused.
Shown by tests/broker_controller/test_controller_group_configs.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import re2

from broker.controller.config_checks import INT32_MAX, IntegerRange
from broker.controller.topic_configs import ConfigType
from broker.wire.errors import ErrorCode

SUBSCRIPTIONS_MAX = 1_000  # each client that asks for a subscription is compared with all of them
LIST_CHARACTERS_MAX = 10_000  # for a list of metrics or of patterns
INTERVAL, MATCH, METRICS = "interval.ms", "match", "metrics"
INTERVAL_MS_MIN, INTERVAL_MS_MAX, DEFAULT_INTERVAL_MS = 100, 3_600_000, 300_000
ALL_METRICS = "*"
# The attributes of a client that a pattern can name.
CLIENT_ATTRIBUTES = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMetricsSetting:
    default: str
    kind: ConfigType
    note: str


CLIENT_METRICS_SETTINGS: Mapping[str, ClientMetricsSetting] = {
    INTERVAL: ClientMetricsSetting(
        default=str(DEFAULT_INTERVAL_MS), kind=ConfigType.INT, note="how often a client pushes, 100 to 3600000"
    ),
    MATCH: ClientMetricsSetting(
        default="", kind=ConfigType.LIST, note="`ATTRIBUTE=PATTERN,..`, all of which must match; empty: every client"
    ),
    METRICS: ClientMetricsSetting(
        default="", kind=ConfigType.LIST, note="prefixes of the wanted metrics' names; `*`: all; empty: none"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    error_code: int
    message: str


def client_metrics_problem(changes: Mapping[str, str | None]) -> Problem | None:
    """Why the setting is refused, with Kafka's texts. Kafka uses two error codes here."""
    given = {name: value for name, value in changes.items() if value is not None}
    for name in given:
        if name not in CLIENT_METRICS_SETTINGS:
            return _request(f"Unknown client metrics configuration: {name}")
    for name in (MATCH, METRICS):
        if len(given.get(name, "")) > LIST_CHARACTERS_MAX:
            return _config(f"The value of {name} is longer than {LIST_CHARACTERS_MAX} characters")
    if INTERVAL in given:
        problem = IntegerRange(low=-INT32_MAX - 1, high=INT32_MAX).problem(INTERVAL, given[INTERVAL])
        if problem is not None:
            return _config(problem)
        if not INTERVAL_MS_MIN <= int(given[INTERVAL]) <= INTERVAL_MS_MAX:
            bounds = f"interval must be between {INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} (1 hour)"
            return _request(f"Invalid value {int(given[INTERVAL])} for {INTERVAL}, {bounds}")
    for item in items(given.get(MATCH, "")):
        if parsed(item) is None:
            return _config(f"Illegal client matching pattern: {item}")
    return None


def _request(message: str) -> Problem:
    return Problem(error_code=ErrorCode.invalid_request, message=message)


def _config(message: str) -> Problem:
    return Problem(error_code=ErrorCode.invalid_config, message=message)


def items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")] if text.strip() else []


def parsed(item: str) -> tuple[str, re2.Pattern] | None:
    """The attribute and its pattern. None if the item is not of this form."""
    parts = item.split("=")
    while parts and not parts[-1]:
        parts.pop()  # Java's split drops empty parts at the end
    if len(parts) != 2 or parts[0].strip() not in CLIENT_ATTRIBUTES:
        return None
    options = re2.Options()
    options.log_errors = False  # otherwise RE2 writes to our stderr; the client gets an error anyway
    try:
        return parts[0].strip(), re2.compile(parts[1].strip(), options)
    except re2.error:
        return None
