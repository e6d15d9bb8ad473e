"""Clients' own tests, as their authors wrote them, against the reference brokers instead of Apache Kafka."""

from __future__ import annotations

from collections.abc import Mapping

from tests.compatibility.suites.franz_go import FranzGo
from tests.compatibility.suites.kafka_python import KafkaPython
from tests.compatibility.suites.librdkafka import Librdkafka
from tests.compatibility.suites.sarama import Sarama
from tests.compatibility.suites.suite import Suite

SUITES: Mapping[str, Suite] = {each.name: each for each in (FranzGo(), Sarama(), Librdkafka(), KafkaPython())}

__all__ = ["SUITES", "Suite"]
