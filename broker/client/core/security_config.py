"""Settings of a client's security: security.protocol, ssl.* and sasl.*, by Kafka's names, with Kafka's defaults.

It is pure: `tls.py` and `tokens.py` read the files. A key store or trust store is PEM, in a file or in the setting
itself, or a PKCS12 file. Shown by tests/broker_client/test_client_security_config.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from broker.client.core.errors import ConfigurationError
from broker.client.core.oauth import CLAIM_PREFIX
from broker.client.core.settings import INT32_MAX, parse_properties, setting
from broker.security.jaas import JaasEntry, parse_jaas
from broker.security.keystores import STORE_TYPES
from broker.security.sasl_client import BEARER, MECHANISMS

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PEM: Final = "PEM"
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
TOKEN_HANDLER: Final = "sasl.login.callback.handler.class"
TokenProvider: TypeAlias = Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """An empty text means that the setting is not set. `sasl_login_callback_handler_class` may be a Python function
    that returns a token. It replaces Java's class."""

    security_protocol: str = setting("PLAINTEXT", choices=PROTOCOLS)
    ssl_enabled_protocols: tuple[str, ...] = setting(TLS_VERSIONS, choices=TLS_VERSIONS)
    ssl_endpoint_identification_algorithm: str = setting("https", choices=("https", ""))
    ssl_key_password: str = setting("", is_secret=True)
    ssl_keystore_certificate_chain: str = setting("", is_secret=True)
    ssl_keystore_key: str = setting("", is_secret=True)
    ssl_keystore_location: str = setting("")
    ssl_keystore_password: str = setting("", is_secret=True)
    ssl_keystore_type: str = setting("JKS", choices=STORE_TYPES)
    ssl_truststore_certificates: str = setting("", is_secret=True)
    ssl_truststore_location: str = setting("")
    ssl_truststore_password: str = setting("", is_secret=True)
    ssl_truststore_type: str = setting("JKS", choices=STORE_TYPES)
    sasl_jaas_config: str = setting("", is_secret=True)
    sasl_login_connect_timeout_ms: int = setting(0, low=0, high=INT32_MAX)
    sasl_login_read_timeout_ms: int = setting(0, low=0, high=INT32_MAX)
    sasl_mechanism: str = setting("GSSAPI", choices=(*MECHANISMS, "GSSAPI"))
    sasl_oauthbearer_client_credentials_client_id: str = setting("")
    sasl_oauthbearer_client_credentials_client_secret: str = setting("", is_secret=True)
    sasl_oauthbearer_scope: str = setting("")
    sasl_oauthbearer_token_endpoint_url: str = setting("")
    token_provider: TokenProvider | None = field(default=None, repr=False)  # no property: see parse_security
    login: JaasEntry | None = field(default=None, repr=False)  # sasl.jaas.config, parsed

    @property
    def is_tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def is_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL")

    @property
    def is_hostname_checked(self) -> bool:
        return self.ssl_endpoint_identification_algorithm != ""


PLAINTEXT: Final = SecurityConfig()


def is_security(name: str) -> bool:
    return name == "security.protocol" or name.startswith(("ssl.", "sasl."))


def parse_security(properties: Mapping[str, object]) -> SecurityConfig:
    """The configuration from the security properties among these. A ConfigurationError names the setting and says which
    values are allowed.

    As in Kafka, settings of a protocol that is not in use are not checked.
    """
    given = {name: value for name, value in properties.items() if is_security(name)}
    if not given:
        return PLAINTEXT
    provider = _provider(given.pop(TOKEN_HANDLER, ""))
    config, _ = parse_properties(SecurityConfig, given, {})
    config = dataclasses.replace(config, token_provider=provider)
    if config.is_tls:
        _check_stores(config)
    return _with_login(config) if config.is_sasl else config


def _provider(value: object) -> TokenProvider | None:
    if callable(value):
        return value
    if str(value or "").strip():
        raise ConfigurationError(
            f"{TOKEN_HANDLER}: Java classes cannot be loaded; give a Python function that returns a token, or "
            "sasl.oauthbearer.token.endpoint.url"
        )
    return None


def _check_stores(config: SecurityConfig) -> None:
    for kind, location, inline in (
        ("truststore", config.ssl_truststore_location, config.ssl_truststore_certificates),
        ("keystore", config.ssl_keystore_location, config.ssl_keystore_key or config.ssl_keystore_certificate_chain),
    ):
        store_type = config.ssl_truststore_type if kind == "truststore" else config.ssl_keystore_type
        if inline and store_type != PEM:
            raise ConfigurationError(
                f"ssl.{kind}.type: is {store_type}, and what stands in the settings is PEM: set ssl.{kind}.type=PEM"
            )
        if location and inline:
            raise ConfigurationError(f"ssl.{kind}.location: the store is given twice, as a file and in the settings")
    if bool(config.ssl_keystore_key) != bool(config.ssl_keystore_certificate_chain):
        raise ConfigurationError("ssl.keystore.key: the key and ssl.keystore.certificate.chain belong together")


def _with_login(config: SecurityConfig) -> SecurityConfig:
    mechanism = config.sasl_mechanism
    if mechanism not in MECHANISMS:
        raise ConfigurationError(f"sasl.mechanism: {mechanism} is not spoken, expected one of {', '.join(MECHANISMS)}")
    if mechanism == BEARER and config.token_provider is not None:
        return config
    if not config.sasl_jaas_config:
        if mechanism == BEARER and config.sasl_oauthbearer_token_endpoint_url:
            return config
        raise ConfigurationError(f"sasl.jaas.config: is needed with sasl.mechanism={mechanism}")
    try:
        login = parse_jaas(config.sasl_jaas_config)
    except ValueError as error:
        raise ConfigurationError(f"sasl.jaas.config: {error}") from None
    needed = () if mechanism == BEARER else ("username", "password")
    for name in needed:
        if name not in login.options:
            raise ConfigurationError(f"sasl.jaas.config: has no {name}, {mechanism} needs username and password")
    if login.options.get("tokenauth", "").lower() == "true":
        raise ConfigurationError(
            "sasl.jaas.config: tokenauth=true is not spoken: there are no logins by delegation tokens (KIP-48)"
        )
    has_source = f"{CLAIM_PREFIX}sub" in login.options or config.sasl_oauthbearer_token_endpoint_url
    if mechanism == BEARER and not has_source:
        raise ConfigurationError(
            f"sasl.oauthbearer.token.endpoint.url: OAUTHBEARER needs a source of tokens: this URL, {CLAIM_PREFIX}sub "
            f"in sasl.jaas.config for unsecured ones, or a Python function as {TOKEN_HANDLER}"
        )
    return dataclasses.replace(config, login=login)


def without_security(properties: Mapping[str, object]) -> dict[str, Any]:  # Any: values as the caller gave them
    return {name: value for name, value in properties.items() if not is_security(name)}
