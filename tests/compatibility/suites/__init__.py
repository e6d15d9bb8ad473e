"""Clients' own tests, as their authors wrote them, on reference brokers, alone or beside Apache Kafka."""

from __future__ import annotations

from collections.abc import Mapping

from tests.compatibility.suites.franz_go import FranzGo
from tests.compatibility.suites.kafka_python import KafkaPython
from tests.compatibility.suites.librdkafka import Librdkafka, LibrdkafkaConsumerProtocol
from tests.compatibility.suites.sarama import Sarama
from tests.compatibility.suites.suite import Suite

_ALL = (KafkaPython(), FranzGo(), Sarama(), Librdkafka(), LibrdkafkaConsumerProtocol())  # the short ones first
SUITES: Mapping[str, Suite] = {each.name: each for each in _ALL}

__all__ = ["SUITES", "Suite"]
