"""The common part of the adapters of aiokafka and kafka-python. Both libraries take their settings as keyword
arguments.

Each adapter describes its library once by a `KeywordLibrary`. Producers, readers and group members get their arguments
from it. This module imports neither library. Shown by tests/workloads/test_workloads_clients.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from workloads.clients.keywords import (
    Assignor,
    Keyword,
    boolean,
    keyword_arguments,
    number,
    same,
    shown,
    text,
    without_assignor,
)
from workloads.clients.member_protocol import MemberSetup
from workloads.clients.protocol import RECORDS_PER_POLL_MAX, ClientSetup, PropertyError
from workloads.clients.security import TokenProvider
from workloads.clients.values import check_consumer_together, check_producer_together

RECORDS_PER_POLL_OF_A_MEMBER: Final = 500  # Kafka's own default of max.poll.records
# The consumer properties of both. Each adds the connection settings that it knows.
CONSUMER: Final[Mapping[str, Keyword]] = {
    **same("client.id client.rack security.protocol isolation.level group.instance.id", text),
    **same("fetch.max.bytes fetch.max.wait.ms fetch.min.bytes max.partition.fetch.bytes max.poll.records", number),
    **same("auto.commit.interval.ms heartbeat.interval.ms max.poll.interval.ms session.timeout.ms", number),
    **same("check.crcs enable.auto.commit", boolean),
}
_CONSUMER_REFUSED: Final[Mapping[str, str]] = {
    "auto.offset.reset": "where a reader begins is `start` of its entry in workload.readers",
    "group.id": "the group of a reader follows from its entry in workload.readers with mode: group",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordLibrary:
    """`refused` says for each producer property why the library does not have it, and what to do instead."""

    name: str
    producer: Mapping[str, Keyword]
    refused: Mapping[str, str]
    consumer: Mapping[str, Keyword]
    package_for_codec: Callable[[str], str | None]  # the package that must be installed first; None: none is missing
    token_provider: TokenProvider  # It gives tokens of OAUTHBEARER, in the library's own form.

    def check_properties(self, properties: Mapping[str, str]) -> None:
        self.producer_arguments(properties)
        check_producer_together(self.name, properties)

    def check_consumer_properties(self, properties: Mapping[str, str], *, is_member: bool) -> None:
        self._consumer_arguments(properties)
        check_consumer_together(self.name, properties, is_member=is_member)

    def producer_arguments(self, properties: Mapping[str, str]) -> dict[str, object]:
        """PropertyError names the first property that the library lacks, or a codec whose package is missing."""
        arguments = keyword_arguments(
            self.name, "producer", properties, self.producer, self.refused, self.token_provider
        )
        codec = arguments.get("compression_type")
        if codec is not None and (package := self.package_for_codec(str(codec))):
            raise PropertyError(self.name, "compression.type", f"{codec} needs the package {package}; gzip needs none")
        if arguments.get("enable_idempotence") is True and arguments.get("acks", "all") != "all":
            reason = "idempotence needs acks=all; set enable.idempotence=false"
            raise PropertyError(self.name, "enable.idempotence", reason)
        return arguments

    def reader_arguments(self, setup: ClientSetup) -> dict[str, object]:
        """The arguments of a consumer of the load. PropertyError as in `producer_arguments`."""
        arguments = self._consumer_arguments(setup.properties)
        arguments.setdefault("max_poll_records", RECORDS_PER_POLL_MAX)
        if setup.group_id is None:
            arguments["enable_auto_commit"] = False
        return {**arguments, **_where(setup.bootstrap_servers, setup.group_id, setup.start)}

    def member_arguments(self, setup: MemberSetup, assignors: Mapping[str, Assignor]) -> dict[str, object]:
        """The arguments of a group member in its own process. `assignors`: the library's, by the name of Java's
        class."""
        properties, assignor = without_assignor(self.name, setup.properties, assignors)
        arguments = self._consumer_arguments(properties)
        arguments.setdefault("max_poll_records", RECORDS_PER_POLL_OF_A_MEMBER)
        if assignor is not None:
            arguments["partition_assignment_strategy"] = (assignor,)
        arguments["enable_auto_commit"] = setup.is_auto_commit
        return {**arguments, **_where(setup.bootstrap_servers, setup.group_id, setup.start)}

    def shown(self, arguments: Mapping[str, object]) -> dict[str, str]:
        """A producer's arguments that are properties of Kafka, with Kafka's names and values."""
        return {
            name: shown(arguments[keyword.argument])
            for name, keyword in self.producer.items()
            if keyword.argument is not None and keyword.argument in arguments
        }

    def _consumer_arguments(self, properties: Mapping[str, str]) -> dict[str, object]:
        return keyword_arguments(
            self.name, "consumer", properties, self.consumer, _CONSUMER_REFUSED, self.token_provider
        )


def _where(bootstrap_servers: str, group_id: str | None, start: Literal["earliest", "latest"]) -> Mapping[str, object]:
    return {"bootstrap_servers": bootstrap_servers.split(","), "group_id": group_id, "auto_offset_reset": start}
