"""Which follower a leader names to a consumer (KIP-392): in sync, in its rack, alive, with the offset; the best one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.controller.image import BrokerRegistration, MetadataImage
from broker.controller.records import Endpoint
from broker.node.handlers.read_replicas import NOBODY, preferred_replica
from broker.replication import FetchTimes
from broker.replication.roles import FollowerState

RACKS = {1: "a", 2: "b", 3: "b", 4: None}


def image(*fenced: int, without_listener: tuple[int, ...] = ()) -> MetadataImage:
    endpoint = Endpoint(listener="EXTERNAL", host="h", port=1)
    brokers = {
        broker: BrokerRegistration(
            broker_id=broker,
            incarnation_id=None,
            broker_epoch=1,
            endpoints={} if broker in without_listener else {"EXTERNAL": endpoint},
            rack=rack,
            fenced=broker in fenced,
            in_controlled_shutdown=False,
        )
        for broker, rack in RACKS.items()
    }
    return MetadataImage(brokers=brokers)


def chosen(followers: dict[int, FollowerState], *, of: MetadataImage | None = None, **how: Any) -> int:
    isr = how.pop("isr", (1, 2, 3, 4))
    hosted: Any = SimpleNamespace(
        replica=SimpleNamespace(followers=followers, isr=isr), follower_log_starts=how.pop("log_starts", {})
    )
    asked = {"offset": 5, "rack": "b", "listener": "EXTERNAL", "broker_id": 1, **how}
    return preferred_replica(hosted, image=of or image(), **asked)


def at(end: int, caught_up_ms: int = 0, idle_ms: int | None = None) -> FollowerState:
    idle = None if idle_ms is None else FetchTimes(last_ms=idle_ms)
    return FollowerState(log_end_offset=end, last_caught_up_ms=caught_up_ms, idle=idle)


def test_the_one_that_has_most_then_the_one_caught_up_last() -> None:
    assert chosen({2: at(9), 3: at(8)}) == 2
    assert chosen({2: at(9, 10), 3: at(9, 20)}) == 3
    assert chosen({2: at(9, 10, idle_ms=30), 3: at(9, 20)}) == 2


@pytest.mark.parametrize(
    "how",
    [
        {"rack": ""},
        {"rack": "nowhere"},
        {"rack": "a"},  # the leader's own
        {"offset": 10},  # it does not have it yet
        {"offset": 5, "log_starts": {2: 6}},  # nor any more
        {"isr": (1, 3, 4)},
        {"of": image(2)},
        {"of": image(without_listener=(2,))},
    ],
)
def test_otherwise_the_leader_answers_itself(how: dict[str, Any]) -> None:
    assert chosen({2: at(9), 4: at(9)}) == 2
    assert chosen({2: at(9), 4: at(9)}, **how) == NOBODY
