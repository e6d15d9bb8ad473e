"""The clients that can be had in a version of one's choice, one row each. What a row needs is the installer's business
(`installers.py`); what versions were tried is in docs/guide/clients.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from workloads.clients.process.versions.crates import LibrdkafkaCrate
from workloads.clients.process.versions.go_modules import GoModule
from workloads.clients.process.versions.installers import Installer
from workloads.clients.process.versions.maven import Maven
from workloads.clients.process.versions.npm import Npm
from workloads.clients.process.versions.pypi import PyPi

# By these, as far as they are there, old and new versions of both libraries compress.
_CODECS: Final = ("cramjam", "lz4", "python-snappy", "zstandard")

VERSIONS: Final[Mapping[str, Installer]] = {
    "confluent": PyPi(
        program="python/client.py", package="confluent-kafka",
        carries="librdkafka", tells="import confluent_kafka; print(confluent_kafka.libversion()[0])",
    ),
    "aiokafka": PyPi(
        program="python_clients/aiokafka_client.py", package="aiokafka", beside=_CODECS,
        # Before 0.9 it takes the newest kafka-python, which since 2.0.3 has not had what it imports.
        constraints=("kafka-python<2.0.3",),
    ),
    "kafka_python": PyPi(
        program="python_clients/kafka_python_client.py", package="kafka-python", beside=_CODECS,
    ),
    "franz-go": GoModule(language="go", module="github.com/twmb/franz-go", oldest="1.15.0"),
    "sarama": GoModule(language="sarama", module="github.com/IBM/sarama", oldest="1.41.0"),
    "java": Maven(
        language="java", group="org.apache.kafka", artifact="kafka-clients", version_property="kafka.version",
    ),
    "kafkajs": Npm(language="node", package="kafkajs"),
    "librdkafka": LibrdkafkaCrate(),
}  # fmt: skip
