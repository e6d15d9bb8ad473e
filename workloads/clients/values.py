"""Whether a value of a Kafka client property is possible, and whether the values fit together; knows no client library.

Names and types are Kafka 4.3's (broker/client/client_settings.tsv). Ranges and choices are those of broker.client's
configuration, which are Kafka's. If a library refuses more than that, its adapter says so. Shown by
tests/workloads/test_workloads_client_values.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from broker.door.client_settings import (
    ConsumerConfig,
    ProducerConfig,
    check_value,
    kafka_client_settings,
    parse_consumer,
    parse_producer,
    property_name,
    settings_of,
)
from broker.door.clients import ConfigurationError
from workloads.clients.protocol import PropertyError, no_such_property
from workloads.clients.security import is_security

Scope = Literal["producer", "consumer"]
_NOWHERE: Final = "127.0.0.1:1"
_CONFIGS: Final = {"producer": ProducerConfig, "consumer": ConsumerConfig}
_LABEL: Final = re.compile(r"^(?:[A-Z_]+: )?([a-z][a-z.]*[a-z])(?:=\S+)?: ")
_QUOTED: Final = re.compile(r"'([^']+)'")
# Units that people write after a number, and the number that Kafka accepts.
_WITH_UNIT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
_BYTES: Final = {"b": 1, "k": 1024, "kb": 1024, "kib": 1024, "m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20}
_MS: Final = {"ms": 1, "s": 1_000, "sec": 1_000, "m": 60_000, "min": 60_000}


def check_values(client: str, scope: Scope, properties: Mapping[str, str]) -> None:
    """PropertyError for the first value that Kafka's own definition of the property does not take. A name that Kafka
    does not have is not looked at."""
    for name, value in properties.items():
        if problem := _value_problem(scope, name, value):
            raise PropertyError(client, name, problem)


def check_names(client: str, scope: Scope, properties: Mapping[str, str]) -> None:
    """PropertyError for the first name that Kafka does not have, with the nearest that it has."""
    known = kafka_client_settings(scope)
    for name in properties:
        if name not in known:
            raise no_such_property(client, name, known, f"Kafka's {scope} has no such property")


def check_producer_together(client: str, properties: Mapping[str, str]) -> None:
    """PropertyError where the values contradict one another, as Kafka's own producer finds it: idempotence without
    acks=all, with more than five requests in flight or without retries, or a delivery.timeout.ms that is too short."""
    fields = {property_name(field.name) for field in settings_of(ProducerConfig)}
    taken = {name: value for name, value in properties.items() if name in fields}
    try:
        parse_producer({**taken, "bootstrap.servers": _NOWHERE})
    except ConfigurationError as error:
        raise as_property_error(client, error) from error


def check_consumer_together(client: str, properties: Mapping[str, str], *, is_member: bool) -> None:
    """PropertyError where a consumer's values contradict one another."""
    fields = {property_name(field.name) for field in settings_of(ConsumerConfig)}
    taken = {name: value for name, value in properties.items() if name in fields}
    group = {"group.id": "of-the-reader"} if is_member else {}
    try:
        parse_consumer({**taken, **group, "bootstrap.servers": _NOWHERE})
    except ConfigurationError as error:
        raise as_property_error(client, error) from error


def as_property_error(client: str, error: ConfigurationError) -> PropertyError:
    """The refusal of broker.client, which begins with the property's name."""
    text = re.sub(r"^[A-Z_]+: ", "", str(error))
    if labelled := _LABEL.match(text):
        return PropertyError(client, labelled[1], text[labelled.end() :])
    quoted = _QUOTED.search(text)
    return PropertyError(client, quoted[1] if quoted else "a property", text)


def _value_problem(scope: Scope, name: str, value: str) -> str:
    setting = kafka_client_settings(scope).get(name)
    if setting is None or is_security(name):  # each adapter reads its own security settings
        return ""
    try:
        check_value(_CONFIGS[scope], name, value)
    except ConfigurationError as error:
        found = as_property_error("", error)
        return f"{found.reason}{_without_unit(name, value)}"
    return "" if setting.accepts(value.strip()) else f"expected {_words(setting.kind)}, got {value!r}"


def _without_unit(name: str, value: str) -> str:
    """`; write 16384` for 16KB, where it is a size or a time that somebody gave with its unit."""
    found = _WITH_UNIT.fullmatch(value.strip())
    factors = _MS if name.endswith(".ms") else _BYTES if name.endswith((".size", ".bytes", ".memory")) else {}
    if found is None or found[2].lower() not in factors:
        return ""
    return f"; it takes a number alone: {float(found[1]) * factors[found[2].lower()]:.0f}"


def _words(kind: str) -> str:
    return {"boolean": "true or false", "double": "a number"}.get(kind, "a whole number")
