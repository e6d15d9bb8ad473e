"""Settings of clients: which there are, which values they take, and what a client makes of those of TLS and SASL."""

from __future__ import annotations

from broker.client.client_settings import kafka_client_settings
from broker.client.core.config import ConsumerConfig, ProducerConfig, parse_consumer, parse_producer
from broker.client.core.security_config import PROTOCOLS, SecurityConfig, is_security, parse_security
from broker.client.core.settings import check_value, property_name, settings_of
from broker.client.security import Security
from broker.client.tokens import token_source

__all__ = [
    "PROTOCOLS",
    "ConsumerConfig",
    "ProducerConfig",
    "Security",
    "SecurityConfig",
    "check_value",
    "is_security",
    "kafka_client_settings",
    "parse_consumer",
    "parse_producer",
    "parse_security",
    "property_name",
    "settings_of",
    "token_source",
]
