"""The security settings of each listener: protocol, TLS, SASL.

As in Kafka, `listener.name.X.KEY` overrides `KEY` for the listener X. `listener.name.X.MECHANISM.sasl.jaas.config` has
the users of PLAIN and the credentials of this broker for connections to other brokers. This module reads no files
(net/tls.py does). Shown by tests/broker_node/test_node_security_settings.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from broker.node.settings.config import SETTINGS, NodeConfig
from broker.node.settings.sections.section import described
from broker.security.cipher_suites import choose_suites
from broker.security.jaas import MODULES, JaasEntry, parse_jaas
from broker.security.keystores import STORE_TYPES
from broker.security.mapping_rules import PrincipalMapper

LISTENER: Final = "listener.name."
JAAS: Final = "sasl.jaas.config"
CLIENT_AUTH: Final = ("none", "requested", "required")
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
URL_SCHEMES: Final = ("http://", "https://", "file://")
REAUTH: Final = "connections.max.reauth.ms"
# Settings that a listener may override.
OF_A_LISTENER: Final = frozenset(
    key for key in SETTINGS if key.startswith(("ssl.", "sasl.")) and not key.startswith("sasl.mechanism.")
) | {REAUTH}
OF_A_MECHANISM: Final = (JAAS, REAUTH)


class SecurityError(ValueError):
    """A setting with which a listener cannot be opened. `key` names it."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}")
        self.key, self.problem = key, problem


class Protocol(Enum):  # in the order of Kafka's numbers
    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def number(self) -> int:
        """Kafka's, for the registration of a broker."""
        return list(Protocol).index(self)

    @property
    def has_tls(self) -> bool:
        return self in (Protocol.SSL, Protocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Keys and certificates are in a file or are given as text. An empty text means that they are not given."""

    keystore_location: str
    keystore_password: str = field(repr=False)
    key: str = field(repr=False)
    certificate_chain: str
    key_password: str = field(repr=False)
    truststore_location: str
    truststore_password: str = field(repr=False)
    truststore_certificates: str
    client_auth: str
    versions: tuple[str, ...]  # some of TLS_VERSIONS
    cipher_suites: str  # TLS 1.2 uses them, under OpenSSL's names. Empty: OpenSSL chooses.
    verifies_host: bool
    mapper: PrincipalMapper = field(repr=False, compare=False)
    mapping_rules: str

    @property
    def has_own_certificate(self) -> bool:
        return bool(self.keystore_location or self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSettings:
    """Settings of OAUTHBEARER. Without `jwks_url` tokens are not signed, as in Kafka's default. This is for tests."""

    jwks_url: str
    refresh_ms: int
    audiences: tuple[str, ...]
    issuer: str
    clock_skew_ms: int
    scope_claim: str
    subject_claim: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    mechanisms: tuple[str, ...]
    entries: Mapping[str, JaasEntry]  # The key is the mechanism.
    max_reauth_ms: Mapping[str, int]  # The key is the mechanism. 0: sessions do not end.
    receive_bytes_max: int  # maximum size of one request before authentication
    failed_delay_ms: int
    tokens: TokenSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSecurity:
    protocol: Protocol
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None

    @property
    def is_authenticated(self) -> bool:
        """Whether every client of the listener must authenticate."""
        return self.sasl is not None or (self.tls is not None and self.tls.client_auth == "required")


PLAINTEXT: Final = ListenerSecurity(protocol=Protocol.PLAINTEXT)


def is_listener_setting(name: str) -> bool:
    """Whether `listener.name.X.KEY`, or `listener.name.X.MECHANISM.KEY`, is a setting that has an effect."""
    rest = name.removeprefix(LISTENER).partition(".")[2].lower()
    if rest in OF_A_LISTENER:
        return True
    mechanism, _, key = rest.partition(".")
    return mechanism.upper() in MODULES and key in OF_A_MECHANISM


def security_of(config: NodeConfig, listener: str) -> ListenerSecurity:
    """The security settings of a listener. Raises SecurityError."""
    protocol = _protocol(config, listener)
    if protocol is Protocol.PLAINTEXT:
        return PLAINTEXT
    values = _Values(config, listener)
    return ListenerSecurity(
        protocol=protocol,
        tls=_tls(values, protocol) if protocol.has_tls else None,
        sasl=_sasl(values) if protocol.has_sasl else None,
    )


class _Values:
    """The settings that hold for one listener."""

    def __init__(self, config: NodeConfig, listener: str) -> None:
        self._prefix = f"{LISTENER}{listener.lower()}."
        self._overrides, self._common = config.listener_overrides, described(config.security)

    def own(self, key: str) -> str | None:
        return self._overrides.get(self._prefix + key)

    def name_of(self, key: str) -> str:
        """The name under which the effective value is given."""
        return key if self.own(key) is None else self._prefix + key

    def text(self, key: str) -> str:
        own = self.own(key)
        return (self._common.get(key, "") if own is None else own).strip()

    def secret(self, key: str) -> str:
        """As `text`, but spaces at the ends are kept, because they may be a part of a password."""
        own = self.own(key)
        return self._common.get(key, "") if own is None else own

    def number(self, key: str) -> int:
        text = self.text(key)
        if not text.isdigit():
            raise SecurityError(self.name_of(key), f"expected a number of at least 0, got {text!r}")
        return int(text)

    def items(self, key: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.text(key).split(",") if part.strip())

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        text = self.text(key)
        if text not in allowed:
            raise SecurityError(self.name_of(key), f"expected one of {', '.join(allowed)}, got {text!r}")
        return text


def _protocol(config: NodeConfig, listener: str) -> Protocol:
    key, found = "listener.security.protocol.map", {}
    for item in filter(None, (part.strip() for part in config.listening.listener_security_protocol_map.split(","))):
        name, _, protocol = item.rpartition(":")
        if not name or protocol.strip().upper() not in Protocol.__members__:
            raise SecurityError(
                key, f"expected NAME:PROTOCOL with one of {', '.join(Protocol.__members__)}, got {item!r}"
            )
        found[name.strip().upper()] = Protocol[protocol.strip().upper()]
    if listener in found:
        return found[listener]
    if listener in Protocol.__members__:
        return Protocol[listener]
    if found:  # an error as in Kafka, so that nobody takes the listener for a secured one
        raise SecurityError(key, f"the listener {listener} is not in it; there is {', '.join(sorted(found))}")
    return Protocol.PLAINTEXT


def _tls(values: _Values, protocol: Protocol) -> TlsSettings:
    for store in ("keystore", "truststore"):
        _check_store_type(values, store)
    enabled = values.items("ssl.enabled.protocols")
    for version in (*enabled, values.text("ssl.protocol")):
        if version not in TLS_VERSIONS:
            key = values.name_of("ssl.enabled.protocols" if version in enabled else "ssl.protocol")
            raise SecurityError(key, f"expected {' and '.join(TLS_VERSIONS)}, got {version!r}")
    highest = TLS_VERSIONS.index(values.text("ssl.protocol"))
    versions = tuple(each for each in TLS_VERSIONS[: highest + 1] if each in enabled)
    if not versions:
        raise SecurityError(values.name_of("ssl.enabled.protocols"), "no version is left that ssl.protocol allows")
    cipher_suites = ""
    if names := values.items("ssl.cipher.suites"):
        try:
            chosen = choose_suites(names, versions)
        except ValueError as error:
            raise SecurityError(values.name_of("ssl.cipher.suites"), str(error)) from None
        cipher_suites, versions = chosen.openssl, chosen.versions
    client_auth = values.choice("ssl.client.auth", CLIENT_AUTH)
    if protocol is Protocol.SASL_SSL and values.own("ssl.client.auth") is None:
        client_auth = "none"  # as in Kafka (KIP-684): for such a listener only its own setting has an effect
    made = TlsSettings(
        keystore_location=values.text("ssl.keystore.location"),
        keystore_password=values.secret("ssl.keystore.password"),
        key=values.text("ssl.keystore.key"),
        certificate_chain=values.text("ssl.keystore.certificate.chain"),
        key_password=values.text("ssl.key.password"),
        truststore_location=values.text("ssl.truststore.location"),
        truststore_password=values.secret("ssl.truststore.password"),
        truststore_certificates=values.text("ssl.truststore.certificates"),
        client_auth=client_auth,
        versions=versions,
        cipher_suites=cipher_suites,
        verifies_host=bool(values.text("ssl.endpoint.identification.algorithm")),
        mapper=_mapper(values),
        mapping_rules=values.text("ssl.principal.mapping.rules"),
    )
    _check_stores(values, made)
    return made


def _check_store_type(values: _Values, store: str) -> None:
    key = f"ssl.{store}.type"
    if values.text(key).upper() not in STORE_TYPES:
        raise SecurityError(values.name_of(key), f"expected one of {', '.join(STORE_TYPES)}, got {values.text(key)!r}")
    if values.text(key).upper() == "PEM" and values.secret(f"ssl.{store}.password"):
        hint = "; ssl.key.password is that of the key" if store == "keystore" else ""
        raise SecurityError(values.name_of(f"ssl.{store}.password"), f"a PEM store has no password{hint}")


def _check_stores(values: _Values, made: TlsSettings) -> None:
    location = values.name_of("ssl.keystore.location")
    if not made.has_own_certificate:
        raise SecurityError(location, "a listener with TLS needs a certificate: give it, or ssl.keystore.key")
    if made.keystore_location and made.key:
        raise SecurityError(location, "give it or ssl.keystore.key, not both")
    if bool(made.key) is not bool(made.certificate_chain):
        raise SecurityError(values.name_of("ssl.keystore.key"), "give it and ssl.keystore.certificate.chain, or none")
    trusts = bool(made.truststore_location or made.truststore_certificates)
    if made.client_auth != "none" and not trusts:
        key = values.name_of("ssl.client.auth")
        raise SecurityError(key, f"{made.client_auth} needs ssl.truststore.location: whose certificates to trust")


def _mapper(values: _Values) -> PrincipalMapper:
    try:
        return PrincipalMapper(values.text("ssl.principal.mapping.rules"))
    except ValueError as error:
        raise SecurityError(values.name_of("ssl.principal.mapping.rules"), str(error)) from None


def _sasl(values: _Values) -> SaslSettings:
    mechanisms = values.items("sasl.enabled.mechanisms")
    key = values.name_of("sasl.enabled.mechanisms")
    unknown = [each for each in mechanisms if each not in MODULES]
    if unknown or not mechanisms:
        raise SecurityError(key, f"expected some of {', '.join(MODULES)}, got {','.join(unknown) or 'nothing'}")
    entries = {name: entry for name in mechanisms if (entry := _entry(values, name)) is not None}
    if "PLAIN" in mechanisms and "PLAIN" not in entries:
        where = f"{values.name_of(key)} names PLAIN; its users stand in"
        raise SecurityError(key, f"{where} listener.name.NAME.plain.{JAAS}, which is not given")
    return SaslSettings(
        mechanisms=mechanisms,
        entries=entries,
        max_reauth_ms={name: _max_reauth_ms(values, name) for name in mechanisms},
        receive_bytes_max=values.number("sasl.server.max.receive.size"),
        failed_delay_ms=values.number("connection.failed.authentication.delay.ms"),
        tokens=_tokens(values),
    )


def _entry(values: _Values, mechanism: str) -> JaasEntry | None:
    key = f"{mechanism.lower()}.{JAAS}"
    text = values.own(key)
    if text is None:
        return None
    try:
        entry = parse_jaas(text)
    except ValueError as error:
        raise SecurityError(values.name_of(key), str(error)) from None
    if entry.module != MODULES[mechanism]:
        raise SecurityError(values.name_of(key), f"expected {MODULES[mechanism]}, got {entry.module}")
    return entry


def _max_reauth_ms(values: _Values, mechanism: str) -> int:
    own = f"{mechanism.lower()}.{REAUTH}"
    return values.number(REAUTH if values.own(own) is None else own)


def _tokens(values: _Values) -> TokenSettings:
    url_key = "sasl.oauthbearer.jwks.endpoint.url"
    url = values.text(url_key)
    if url and not url.startswith(URL_SCHEMES):
        raise SecurityError(values.name_of(url_key), f"expected {', '.join(URL_SCHEMES)}…, got {url!r}")
    return TokenSettings(
        jwks_url=url,
        refresh_ms=values.number("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        audiences=values.items("sasl.oauthbearer.expected.audience"),
        issuer=values.text("sasl.oauthbearer.expected.issuer"),
        clock_skew_ms=1000 * values.number("sasl.oauthbearer.clock.skew.seconds"),
        scope_claim=values.text("sasl.oauthbearer.scope.claim.name"),
        subject_claim=values.text("sasl.oauthbearer.sub.claim.name"),
    )
