"""The reference broker as a thing to start: which settings it knows, and its wrong variants."""

from __future__ import annotations

from broker.kafka_settings import kafka_settings
from broker.mutants import description

__all__ = [
    "description",
    "kafka_settings",
]
