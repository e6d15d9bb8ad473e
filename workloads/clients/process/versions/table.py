"""The clients that can be had in a version of one's choice, one row each. What a row needs is the installer's business
(`installers.py`); what versions were tried is in docs/guide/clients.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from workloads.clients.process.versions.go_modules import GoModule
from workloads.clients.process.versions.installers import Installer
from workloads.clients.process.versions.npm import Npm
from workloads.clients.process.versions.pypi import PyPi

VERSIONS: Final[Mapping[str, Installer]] = {
    "confluent": PyPi(
        language="python", package="confluent-kafka",
        carries="librdkafka", tells="import confluent_kafka; print(confluent_kafka.libversion()[0])",
    ),
    "franz-go": GoModule(language="go", module="github.com/twmb/franz-go"),
    "kafkajs": Npm(language="node", package="kafkajs"),
}  # fmt: skip
