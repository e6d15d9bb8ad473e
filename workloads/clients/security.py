"""Kafka's security properties as librdkafka's: the same meanings under other names, and a JAAS line taken apart.

Knows no client library. Stores in PEM form only, which every client here reads. Shown by
tests/workloads/test_workloads_clients.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from workloads.clients.protocol import PropertyError

_JAAS_FIELD = re.compile(r"(username|password)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([^\s;]+))")
_PEM_HINT = "librdkafka reads PEM: convert the store (keytool -list -rfc, openssl pkcs12) and say type=PEM"


def is_security(name: str) -> bool:
    return name == "security.protocol" or name.startswith(("ssl.", "sasl."))


def librdkafka_security(client: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Of the properties given, which are all for security. PropertyError names the first without an equivalent."""
    settings: dict[str, str] = {}
    for name, value in properties.items():
        if name in ("security.protocol", "sasl.mechanism", "ssl.key.password", "ssl.cipher.suites"):
            settings[name] = value
        elif name == "sasl.jaas.config":
            settings |= _credentials(client, value)
        elif name == "ssl.endpoint.identification.algorithm":
            settings[name] = value or "none"
        elif name in ("ssl.truststore.type", "ssl.keystore.type"):
            if value.upper() != "PEM":
                raise PropertyError(client, name, f"got {value!r}: {_PEM_HINT}")
        elif name == "ssl.truststore.location":
            _expect_pem(client, properties, "ssl.truststore.type")
            settings["ssl.ca.location"] = value
        elif name == "ssl.truststore.certificates":
            settings["ssl.ca.pem"] = value
        elif name == "ssl.keystore.location":
            _expect_pem(client, properties, "ssl.keystore.type")
            settings["ssl.certificate.location"] = settings["ssl.key.location"] = value
        elif name == "ssl.truststore.password":
            raise PropertyError(client, name, f"a PEM file has none; {_PEM_HINT}")
        else:
            raise PropertyError(client, name, "librdkafka has no equivalent")
    return settings


def _expect_pem(client: str, properties: Mapping[str, str], name: str) -> None:
    if properties.get(name, "JKS").upper() != "PEM":
        raise PropertyError(client, name, f"is {properties.get(name, 'JKS (the default)')}: {_PEM_HINT}")


def _credentials(client: str, jaas: str) -> dict[str, str]:
    found = {}
    for match in _JAAS_FIELD.finditer(jaas):
        quoted = match[2]
        found[match[1]] = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else match[3] or match[4]
    if set(found) != {"username", "password"}:
        raise PropertyError(client, "sasl.jaas.config", 'expected ... required username="..." password="...";')
    return {"sasl.username": found["username"], "sasl.password": found["password"]}
