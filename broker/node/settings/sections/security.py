"""Settings of TLS, SASL and authorization. A listener may override those of TLS and SASL (settings/security.py).

A field that is not in the representation is a secret: DescribeConfigs does not show it.
Shown by tests/broker_node/test_node_security_settings.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Final

from broker.node.settings.sections.section import key_of, setting
from broker.node.settings.values import authorizer, principals


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    ssl_keystore_type: str = "PEM"  # Kafka: JKS
    ssl_keystore_location: str = ""  # a file; or the two texts below
    ssl_keystore_password: str = field(default="", repr=False)  # A PKCS12 store needs it.
    ssl_keystore_key: str = field(default="", repr=False)
    ssl_keystore_certificate_chain: str = field(default="", repr=False)
    ssl_key_password: str = field(default="", repr=False)  # of the key inside the store
    ssl_truststore_type: str = "PEM"  # Kafka: JKS
    ssl_truststore_location: str = ""  # a file; or the text below
    ssl_truststore_password: str = field(default="", repr=False)
    ssl_truststore_certificates: str = field(default="", repr=False)
    ssl_client_auth: str = "none"  # or requested, or required
    ssl_protocol: str = "TLSv1.3"  # the highest version that is offered
    ssl_enabled_protocols: str = "TLSv1.2,TLSv1.3"
    ssl_cipher_suites: str = ""  # names as registered by IANA; empty: OpenSSL chooses
    ssl_endpoint_identification_algorithm: str = "https"  # for connections to other brokers; empty: names may differ
    ssl_principal_mapping_rules: str = "DEFAULT"  # from a certificate's name to a principal
    sasl_enabled_mechanisms: str = "PLAIN"  # Kafka: GSSAPI
    sasl_mechanism_inter_broker_protocol: str = "PLAIN"  # Kafka: GSSAPI
    sasl_mechanism_controller_protocol: str = "PLAIN"  # Kafka: GSSAPI
    sasl_server_max_receive_size: int = 512 << 10  # bytes of one request before authentication
    connections_max_reauth_ms: int = 0  # 0: sessions do not end. Less costs more authentications.
    connection_failed_authentication_delay_ms: int = 100  # More slows down who guesses passwords, and who mistypes one.
    sasl_oauthbearer_jwks_endpoint_url: str = ""  # empty: tokens are not signed
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = 3_600_000  # More takes a new key later.
    sasl_oauthbearer_expected_audience: str = ""  # empty: every audience is good
    sasl_oauthbearer_expected_issuer: str = ""  # empty: every issuer is good
    sasl_oauthbearer_clock_skew_seconds: int = 30  # More accepts tokens for longer after they have expired.
    sasl_oauthbearer_scope_claim_name: str = "scope"
    sasl_oauthbearer_sub_claim_name: str = "sub"
    authorizer_class_name: str = setting("", authorizer)  # empty: everybody may do everything; else StandardAuthorizer
    super_users: str = setting("", principals)  # principals that may do everything, as in User:admin;User:broker
    allow_everyone_if_no_acl_found: bool = False


_SECRETS: Final = (*(key_of(each.name) for each in fields(SecuritySettings) if not each.repr), "sasl.jaas.config")


def is_sensitive(key: str) -> bool:
    """Whether the value is a secret: Kafka's type password. `key` is a setting of a broker, or of a listener with its
    prefix."""
    return key.endswith(_SECRETS)
