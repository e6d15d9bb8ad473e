"""What every connection of one client needs for its security: the TLS context and the credentials. They are made once
from the settings.

Shown by tests/broker_client/test_client_tls.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.client.core.security_config import SecurityConfig
from broker.security.sasl_client import BEARER, Credentials

if TYPE_CHECKING:
    import ssl


class Security:
    """If both fields are None, connections use plain text. Raises ConfigurationError for files that cannot be used."""

    def __init__(self, config: SecurityConfig) -> None:
        self.context: ssl.SSLContext | None = None
        self.credentials: Credentials | None = None
        if config.is_tls:
            # imported here, so that a client with plain text does not pay for it
            from broker.client.tls import client_context

            self.context = client_context(config)
        if config.is_sasl:
            self.credentials = credentials_of(config)


def credentials_of(config: SecurityConfig) -> Credentials:
    """The credentials from a configuration with SASL."""
    if config.sasl_mechanism == BEARER:
        from broker.client.tokens import token_source

        return Credentials(mechanism=BEARER, bearer=token_source(config))
    assert config.login is not None, "security_config.py takes the JAAS text apart"
    options = config.login.options
    return Credentials(
        mechanism=config.sasl_mechanism,
        username=options["username"],
        password=options["password"],
    )
