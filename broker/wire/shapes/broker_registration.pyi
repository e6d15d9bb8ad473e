"""BrokerRegistrationRequest (key 62) and its answer, version 4.

Written by `python -m broker.wire.shape_writer`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, final
from uuid import UUID

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class Listener:
    name: str
    host: str
    port: int
    security_protocol: int

class ListenerFields(TypedDict, total=False):
    name: str
    host: str
    port: int
    security_protocol: int

@final
@dataclass(frozen=True, kw_only=True)
class Feature:
    name: str
    min_supported_version: int
    max_supported_version: int

class FeatureFields(TypedDict, total=False):
    name: str
    min_supported_version: int
    max_supported_version: int

@final
@dataclass(frozen=True, kw_only=True)
class BrokerRegistrationRequest(Asks[BrokerRegistrationResponse]):
    broker_id: int
    cluster_id: str
    incarnation_id: UUID | None
    listeners: tuple[Listener, ...]
    features: tuple[Feature, ...]
    rack: str | None
    is_migrating_zk_broker: bool
    log_dirs: tuple[UUID | None, ...] | None
    previous_broker_epoch: int

class BrokerRegistrationRequestFields(TypedDict, total=False):
    broker_id: int
    cluster_id: str
    incarnation_id: UUID | None
    listeners: Iterable[ListenerFields]
    features: Iterable[FeatureFields]
    rack: str | None
    is_migrating_zk_broker: bool
    log_dirs: Iterable[UUID | None] | None
    previous_broker_epoch: int

@final
@dataclass(frozen=True, kw_only=True)
class BrokerRegistrationResponse(Answers[BrokerRegistrationRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    broker_epoch: int

class BrokerRegistrationResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    broker_epoch: int
