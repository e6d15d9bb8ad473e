"""Kafka's security properties as librdkafka's and as those of the pure Python clients; a JAAS line taken apart.

Knows no client library. Stores in PEM form only, which every client here reads. Shown by
tests/workloads/test_workloads_clients.py and, against a real cluster, tests/harness/test_harness_external.py.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from typing import TypeAlias

from broker.door.client_settings import is_security, parse_security, token_source
from broker.door.clients import ConfigurationError
from broker.door.security import parse_jaas
from workloads.clients.protocol import PropertyError

__all__ = ["TokenProvider", "is_security", "librdkafka_security", "python_security"]
_PEM_HINT = "this client reads PEM: convert the store (keytool -list -rfc, openssl pkcs12) and say type=PEM"
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_BEARER = "OAUTHBEARER"
_PYTHON_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", _BEARER)
# A function that gives a valid token -> what the library wants in its place.
TokenProvider: TypeAlias = Callable[[Callable[[], str]], object]
# The client credentials grant. librdkafka's names are those that Kafka had before 4.1.
_OF_TOKENS = {
    "sasl.oauthbearer.token.endpoint.url": "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
_TLS = (
    "ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.certificates", "ssl.keystore.location",
    "ssl.keystore.type", "ssl.key.password", "ssl.endpoint.identification.algorithm", "ssl.cipher.suites",
)  # fmt: skip


def librdkafka_security(client: str, properties: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's names for Kafka's security properties. PropertyError names the first without an equivalent."""
    settings: dict[str, str] = {}
    for name, value in properties.items():
        if name in ("security.protocol", "sasl.mechanism", "ssl.key.password", "ssl.cipher.suites"):
            settings[name] = value
        elif name in _OF_TOKENS:
            settings |= {"sasl.oauthbearer.method": "oidc", _OF_TOKENS[name]: value}
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


def python_security(client: str, properties: Mapping[str, str], provider: TokenProvider) -> dict[str, object]:
    """Keyword arguments that aiokafka and kafka-python share. PropertyError names what cannot be set or read.

    Both libraries leave it to the program to get tokens. They get them as the client `reference` does.
    """
    protocol = properties.get("security.protocol", "PLAINTEXT")
    if protocol not in _PROTOCOLS:
        raise PropertyError(client, "security.protocol", f"got {protocol!r}, expected one of {', '.join(_PROTOCOLS)}")
    for name in properties:
        if name.startswith("ssl.") and not protocol.endswith("SSL"):
            raise PropertyError(client, name, f"has no effect with security.protocol={protocol}")
        if name.startswith("sasl.") and not protocol.startswith("SASL"):
            raise PropertyError(client, name, f"has no effect with security.protocol={protocol}")
        if name == "ssl.truststore.password":
            raise PropertyError(client, name, f"a PEM file has none; {_PEM_HINT}")
        if name not in ("security.protocol", "sasl.mechanism", "sasl.jaas.config", *_OF_TOKENS, *_TLS):
            raise PropertyError(client, name, "the library has no equivalent")
    arguments: dict[str, object] = {"security_protocol": protocol} if "security.protocol" in properties else {}
    if protocol.startswith("SASL"):
        mechanism = properties.get("sasl.mechanism", "GSSAPI")
        if mechanism not in _PYTHON_MECHANISMS:
            expected = ", ".join(_PYTHON_MECHANISMS)
            raise PropertyError(client, "sasl.mechanism", f"is {mechanism}, expected one of {expected}")
        arguments["sasl_mechanism"] = mechanism
        if mechanism == _BEARER:
            arguments["sasl_oauth_token_provider"] = provider(_tokens(client, properties))
        else:
            found = _credentials(client, properties.get("sasl.jaas.config", ""))
            arguments |= {"sasl_plain_username": found["sasl.username"], "sasl_plain_password": found["sasl.password"]}
    if protocol.endswith("SSL"):
        arguments["ssl_context"] = _tls_context(client, properties)
    return arguments


def _tokens(client: str, properties: Mapping[str, str]) -> Callable[[], str]:
    """Asks the token endpoint, and again before the token ends."""
    wanted = {name: value for name, value in properties.items() if name.startswith(("security.", "sasl."))}
    try:
        return token_source(parse_security(wanted))
    except ConfigurationError as error:
        name, _, reason = str(error).partition(": ")
        raise PropertyError(client, name, reason) from error


def _tls_context(client: str, properties: Mapping[str, str]) -> ssl.SSLContext:
    """Without a trust store, the host's is used. An empty identification algorithm leaves host names unchecked."""
    for store in ("ssl.truststore", "ssl.keystore"):
        if f"{store}.location" in properties or f"{store}.type" in properties:
            _expect_pem(client, properties, f"{store}.type")
    name = "ssl.truststore.location"
    try:
        context = ssl.create_default_context(
            cafile=properties.get(name), cadata=properties.get("ssl.truststore.certificates")
        )
        context.check_hostname = properties.get("ssl.endpoint.identification.algorithm", "https") != ""
        if "ssl.cipher.suites" in properties:
            name = "ssl.cipher.suites"
            context.set_ciphers(properties[name])
        if "ssl.keystore.location" in properties:
            name = "ssl.keystore.location"
            # An empty password rather than none: OpenSSL would ask for it on the terminal.
            context.load_cert_chain(properties[name], password=properties.get("ssl.key.password", ""))
    except (OSError, ValueError) as error:
        raise PropertyError(client, name, f"{properties.get(name, '')!r}: {error}") from error
    return context


def _expect_pem(client: str, properties: Mapping[str, str], name: str) -> None:
    if properties.get(name, "JKS").upper() != "PEM":
        raise PropertyError(client, name, f"is {properties.get(name, 'JKS (the default)')}: {_PEM_HINT}")


def _credentials(client: str, jaas: str) -> dict[str, str]:
    hint = 'expected ... required username="..." password="...";'
    try:
        options = parse_jaas(jaas).options
    except ValueError as error:
        raise PropertyError(client, "sasl.jaas.config", f"{error}; {hint}") from error
    if not {"username", "password"} <= options.keys():
        raise PropertyError(client, "sasl.jaas.config", hint)
    return {"sasl.username": options["username"], "sasl.password": options["password"]}
