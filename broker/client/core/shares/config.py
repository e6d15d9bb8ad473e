"""The settings of a share consumer: those of Kafka's ShareConsumerConfig that this client honours.

A share consumer has no offsets to commit and no place where it begins: these are settings of the group at the broker
(share.auto.offset.reset, share.isolation.level). Shown by tests/broker_client/test_client_config.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from broker.client.core.config import require_bootstrap
from broker.client.core.errors import ConfigurationError
from broker.client.core.security_config import PLAINTEXT, SecurityConfig, parse_security, without_security
from broker.client.core.settings import INT32_MAX, INT64_MAX, parse_properties, property_name, setting, settings_of

IMPLICIT, EXPLICIT = "implicit", "explicit"
BATCH_OPTIMIZED, RECORD_LIMIT = "batch_optimized", "record_limit"
# Settings of ConsumerConfig that Java's share consumer refuses too, and what stands in their place.
_GROUP_DECIDES = "a share group has {} as a setting of the group at the broker"
REFUSED: Mapping[str, str] = {
    "auto.offset.reset": _GROUP_DECIDES.format("share.auto.offset.reset"),
    "enable.auto.commit": "a share consumer commits no offsets; see share.acknowledgement.mode",
    "group.instance.id": "a share group has no static members",
    "isolation.level": _GROUP_DECIDES.format("share.isolation.level"),
    "partition.assignment.strategy": "the broker assigns",
    "interceptor.classes": "a share consumer calls no interceptors",
    "session.timeout.ms": _GROUP_DECIDES.format("share.session.timeout.ms"),
    "heartbeat.interval.ms": _GROUP_DECIDES.format("share.heartbeat.interval.ms"),
    "group.protocol": "a share group has one protocol",
    "group.remote.assignor": "the broker assigns",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareConsumerConfig:
    """A broker waits `fetch_max_wait_ms` for `fetch_min_bytes`. It gives about `max_poll_records` records at once:
    whole record batches with share.acquire.mode=batch_optimized, never more with record_limit (from Kafka 4.2 on)."""

    bootstrap_servers: tuple[str, ...] = setting(())
    client_id: str = setting("")
    group_id: str = setting("")
    share_acknowledgement_mode: str = setting(IMPLICIT, choices=(IMPLICIT, EXPLICIT))
    share_acquire_mode: str = setting(BATCH_OPTIMIZED, choices=(BATCH_OPTIMIZED, RECORD_LIMIT))
    fetch_min_bytes: int = setting(1, low=0, high=INT32_MAX)
    fetch_max_wait_ms: int = setting(500, low=0, high=INT32_MAX)
    fetch_max_bytes: int = setting(52428800, low=0, high=INT32_MAX)
    max_poll_records: int = setting(500, low=1, high=INT32_MAX)
    max_poll_interval_ms: int = setting(300000, low=1, high=INT32_MAX)
    client_rack: str = setting("")
    allow_auto_create_topics: bool = setting(True)
    check_crcs: bool = setting(True)
    request_timeout_ms: int = setting(30000, low=0, high=INT32_MAX)
    default_api_timeout_ms: int = setting(60000, low=0, high=INT32_MAX)
    retry_backoff_ms: int = setting(100, low=0, high=INT64_MAX)
    retry_backoff_max_ms: int = setting(1000, low=0, high=INT64_MAX)
    metadata_max_age_ms: int = setting(300000, low=0, high=INT64_MAX)
    reconnect_backoff_ms: int = setting(50, low=0, high=INT64_MAX)
    reconnect_backoff_max_ms: int = setting(1000, low=0, high=INT64_MAX)
    socket_connection_setup_timeout_ms: int = setting(10000, low=1, high=INT64_MAX)
    send_buffer_bytes: int = setting(131072, low=-1, high=INT32_MAX)
    receive_buffer_bytes: int = setting(65536, low=-1, high=INT32_MAX)
    security: SecurityConfig = PLAINTEXT

    @property
    def is_implicit(self) -> bool:
        return self.share_acknowledgement_mode == IMPLICIT

    @property
    def group_instance_id(self) -> str:
        """A share group has no static members."""
        return ""


SHARE_NAMES = frozenset(
    property_name(each.name) for each in (*settings_of(ShareConsumerConfig), *settings_of(SecurityConfig))
)


def parse_share_consumer(properties: Mapping[str, object]) -> ShareConsumerConfig:
    lowered = {
        name: str(value).lower() if name in ("share.acknowledgement.mode", "share.acquire.mode") else value
        for name, value in properties.items()
    }
    config, _ = parse_properties(ShareConsumerConfig, without_security(lowered), REFUSED, nearest_of=SHARE_NAMES)
    config = dataclasses.replace(config, security=parse_security(properties))
    require_bootstrap(config.bootstrap_servers)
    if not config.group_id:
        raise ConfigurationError("group.id: a share consumer needs one")
    return config
