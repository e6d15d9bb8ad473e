"""The parts that depend on the group protocol: the choice of a member's core, and the events for requests that were not
sent."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from broker.client.core.config import ConsumerConfig
from broker.client.core.groups.classic import ClassicMember
from broker.client.core.groups.consumer import ConsumerMember
from broker.client.core.groups.events import (
    Action,
    ConsumerHeartbeatAnswered,
    Event,
    HeartbeatAnswered,
    Joined,
    LeftAnswered,
    MemberCore,
    SendConsumerHeartbeat,
    SendHeartbeat,
    SendJoin,
    SendShareHeartbeat,
    SendSync,
    Synced,
)
from broker.client.core.groups.share import ShareMember
from broker.client.core.shares.config import ShareConsumerConfig
from broker.wire.errors import ErrorCode


def make_core(config: ConsumerConfig | ShareConsumerConfig, rng: random.Random) -> MemberCore:
    if isinstance(config, ShareConsumerConfig):
        return ShareMember(config, rng)
    return ConsumerMember(config, rng) if config.group_protocol == "consumer" else ClassicMember(config, rng)


def refused_event(action: Action, text: str) -> Event:
    """The event for a request that could not be sent. It looks as if the broker had answered UNSUPPORTED_VERSION."""
    error = ErrorCode.unsupported_version
    answers: Mapping[type[Any], Event] = {
        SendJoin: Joined(error=error),
        SendSync: Synced(error=error),
        SendHeartbeat: HeartbeatAnswered(error=error),
        SendConsumerHeartbeat: ConsumerHeartbeatAnswered(error=error, message=text),
        SendShareHeartbeat: ConsumerHeartbeatAnswered(error=error, message=text),
    }
    return answers.get(type(action), LeftAnswered())


def fatal_event(core: MemberCore, error: ErrorCode) -> Event:
    return Joined(error=error) if isinstance(core, ClassicMember) else ConsumerHeartbeatAnswered(error=error)
