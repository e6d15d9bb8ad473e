"""The share partitions of a broker, without sockets: what becomes of a session whose connection is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast
from uuid import UUID

from broker.controller.image import MetadataImage
from broker.node.features.share_groups.shares import Shares
from broker.node.process.logs import Logger
from tests.broker_node.partitions_helper import node_config

PLACES = [(UUID(int=1), 0)]


def made(directory: Path) -> Shares:
    nobody: Any = None  # no share partition is opened here
    return Shares(
        settings=node_config(directory).shares,
        partitions=nobody,
        persister=nobody,
        image=MetadataImage,
        logger=Logger(1),
        spawn=cast(Any, lambda work: None),
    )


def test_a_session_of_a_lost_connection_is_over_when_its_member_comes_back(tmp_path: Path) -> None:
    """As in Apache Kafka, and not only when the sweep has seen it. One whose connection lives stays."""
    shares, is_open = made(tmp_path), [True]
    shares.sessions.open("g", "m", PLACES, lambda: is_open[0])
    shares.end_if_lost("g", "m")
    assert shares.sessions.get("g", "m") is not None
    is_open[0] = False
    shares.end_if_lost("g", "other")
    assert shares.sessions.get("g", "m") is not None
    shares.end_if_lost("g", "m")
    assert shares.sessions.get("g", "m") is None
