"""A batch of transaction version 1 is appended without asking whether its transaction is ongoing (against KIP-890)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.node.broker import Broker
from broker.node.connection import Request
from broker.node.handlers import api_00_produce
from broker.node.verification import PRODUCE_ADDS_SINCE_VERSION

if TYPE_CHECKING:
    from broker.mutants.settings import Settings


def _must_be_verified(broker: Broker, request: Request) -> bool:
    return request.version >= PRODUCE_ADDS_SINCE_VERSION


def apply(patch: Patch) -> None:
    patch.set(api_00_produce, "_must_be_verified", _must_be_verified)


def is_reached(settings: Settings) -> bool:
    return settings.transactional_producers > 0
