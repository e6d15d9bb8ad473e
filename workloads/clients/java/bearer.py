"""OAUTHBEARER of Apache Kafka's Java client: the settings that it needs beside the address of a token endpoint.

A JVM asks only those addresses for tokens that its command line allows. The address is no secret. Shown by
tests/harness/test_harness_secured_cluster.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
_ALLOWED: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
_NEEDED: Final[Mapping[str, str]] = {
    "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
}


def jvm_options(properties: Mapping[str, str]) -> tuple[str, ...]:
    return (f"-D{_ALLOWED}={properties[ENDPOINT]}",) if ENDPOINT in properties else ()


def with_login(properties: Mapping[str, str]) -> dict[str, str]:
    """What is given counts more."""
    return {**_NEEDED, **properties} if ENDPOINT in properties else dict(properties)
