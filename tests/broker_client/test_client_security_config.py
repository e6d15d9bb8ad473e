"""The settings of security: what is refused, and sasl.jaas.config as Kafka reads it. No message shows a secret."""

from __future__ import annotations

import re

import pytest

from broker.client.core.config import as_properties, parse_admin, parse_consumer, parse_producer
from broker.client.core.errors import ConfigurationError
from broker.client.core.security_config import parse_security

BOOT = {"bootstrap.servers": "127.0.0.1:9092"}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"security.protocol": "SASL_TLS"}, "nearest is 'SASL_SSL'"),
        ({"security.protocol": "ssl"}, "nearest is 'SSL'"),
        ({"security.protocol": "SASL_SSL"}, "GSSAPI is not spoken"),
        ({**SASL}, "sasl.jaas.config: is needed"),
        ({**SASL, "sasl.jaas.config": f"{SCRAM} required username=a;"}, "has no password"),
        (
            {**SASL, "sasl.jaas.config": f"{SCRAM} required username=a password=b tokenauth=true;"},
            "tokenauth=true is not spoken: there are no logins by delegation tokens (KIP-48)",
        ),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": "M required;"}, "a source of tokens"),
        ({**SASL, "sasl.login.callback.handler.class": "com.example.Handler"}, "a Python function"),
        ({"security.protocol": "SSL", "ssl.truststore.certificates": "x"}, "ssl.truststore.type: is JKS"),
        (
            {"security.protocol": "SSL", "ssl.keystore.key": "x", "ssl.keystore.type": "PKCS12"},
            "settings is PEM",
        ),
        ({"security.protocol": "SSL", "ssl.keystore.key": "k", "ssl.keystore.type": "PEM"}, "belong together"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"}, "expected one of TLSv1.2, TLSv1.3"),
        ({"ssl.ca.location": "x"}, "unknown property 'ssl.ca.location'"),
        ({"security.protocl": "SSL"}, "nearest is 'security.protocol'"),
    ],
)
def test_what_cannot_work_is_refused_by_name(given: dict[str, object], words: str) -> None:
    for parse in (parse_producer, parse_consumer, parse_admin):
        with pytest.raises(ConfigurationError, match=re.escape(words)):
            parse({**BOOT, **given})


def test_no_secret_is_shown() -> None:
    secret = "s3cret-of-alice"
    given = {
        **SASL, "security.protocol": "SASL_SSL", "ssl.key.password": secret,
        "sasl.jaas.config": f'{SCRAM} required username="alice" password="{secret}";',
    }  # fmt: skip
    config = parse_producer({**BOOT, **given})
    shown = as_properties(config)
    assert shown["sasl.jaas.config"] == shown["ssl.key.password"] == "[hidden]"
    assert shown["security.protocol"] == "SASL_SSL"
    assert secret not in repr(config)
    assert config.security.login is not None
    assert config.security.login.options["password"] == secret
    for wrong in (f"{SCRAM} required username=a password={secret}", f'{SCRAM} required password="{secret}'):
        with pytest.raises(ConfigurationError) as error:
            parse_security({**given, "sasl.jaas.config": wrong})
        assert secret not in str(error.value)


def test_settings_of_a_protocol_that_is_not_spoken_change_nothing() -> None:
    assert parse_security({"ssl.truststore.location": "no-such.jks"}).security_protocol == "PLAINTEXT"
    assert as_properties(parse_producer(BOOT))["security.protocol"] == "PLAINTEXT"
    assert "sasl.mechanism" not in as_properties(parse_producer(BOOT))
