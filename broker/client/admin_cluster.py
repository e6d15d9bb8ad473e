"""The admin of logs, settings and the quorum: the calls behind `Admin` that change or show the cluster itself.

Each function takes the client and a deadline, and raises KafkaError. Where a change has to reach the controller, any
broker forwards it.
Shown by tests/broker_client/test_client_admin.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from broker.client.blocking import BlockingClient
from broker.client.core.batch import TopicPartition
from broker.client.core.errors import KafkaError, first_of
from broker.client.question import raise_error
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request

if TYPE_CHECKING:
    from broker.wire.shapes.alter_client_quotas import AlterClientQuotasRequest, AskedEntryDataFields
    from broker.wire.shapes.describe_client_quotas import ComponentDataFields, DescribeClientQuotasRequest
    from broker.wire.shapes.elect_leaders import ElectLeadersRequest, TopicPartitionsFields

_PREFERRED, _UNCLEAN = 0, 1
_ELECTION_NOT_NEEDED = ErrorCode.election_not_needed
_EXACT, _ANY = 0, 2  # match types of DescribeClientQuotas


def elect_leaders(
    client: BlockingClient, partitions: Iterable[TopicPartition] | None, *, is_unclean: bool, deadline_ms: int
) -> dict[TopicPartition, KafkaError | None]:
    """The result by partition: None if the partition has the leader that was asked for, else the error. If `partitions`
    is None, all partitions that need an election get one."""
    chosen = None if partitions is None else [TopicPartition(*each) for each in partitions]

    def build(version: int) -> ElectLeadersRequest:
        topics: list[TopicPartitionsFields] | None = None
        if chosen is not None:
            by_name: dict[str, list[int]] = {}
            for topic, index in chosen:
                by_name.setdefault(topic, []).append(index)
            topics = [{"topic": name, "partitions": indexes} for name, indexes in by_name.items()]
        election = _UNCLEAN if is_unclean else _PREFERRED
        timeout_ms = client.config.request_timeout_ms
        return request(
            ApiKey.ELECT_LEADERS, version, election_type=election, topic_partitions=topics, timeout=timeout_ms
        )

    answer = client.call(None, ApiKey.ELECT_LEADERS, build, deadline_ms)
    raise_error(answer.error_code, None, "election")
    found: dict[TopicPartition, KafkaError | None] = {}
    for topic in answer.replica_election_results:
        for each in topic.partition_result:
            is_fine = each.error_code in (ErrorCode.none, _ELECTION_NOT_NEEDED)
            text = f"{topic.topic}-{each.partition_id}: {each.error_message}"
            found[TopicPartition(topic.topic, each.partition_id)] = (
                None if is_fine else KafkaError(each.error_code, text)
            )
    return found


def describe_client_quotas(
    client: BlockingClient, client_id: str | None, deadline_ms: int
) -> dict[str | None, dict[str, float]]:
    """Quotas by client id. The entry under None is the default of all other clients. If `client_id` is None, the quotas
    of all clients are returned."""
    component: ComponentDataFields = {"entity_type": "client-id", "match_type": _ANY, "match": None}
    if client_id is not None:
        component = {"entity_type": "client-id", "match_type": _EXACT, "match": client_id}

    def build(version: int) -> DescribeClientQuotasRequest:
        return request(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, components=[component], strict=True)

    answer = client.call(None, ApiKey.DESCRIBE_CLIENT_QUOTAS, build, deadline_ms)
    raise_error(answer.error_code, answer.error_message, "quotas")
    return {
        first_of(entry.entity).entity_name: {each.key: each.value for each in entry.values}
        for entry in answer.entries or ()
    }


def alter_client_quotas(
    client: BlockingClient, client_id: str | None, quotas: Mapping[str, float | None], deadline_ms: int
) -> None:
    """Change `producer_byte_rate`, `consumer_byte_rate` or `request_percentage`. A quota whose value is None is
    removed. If `client_id` is None, the default of all clients without quotas of their own changes."""

    def build(version: int) -> AlterClientQuotasRequest:
        entry: AskedEntryDataFields = {
            "entity": [{"entity_type": "client-id", "entity_name": client_id}],
            "ops": [
                {"key": key, "value": 0.0 if value is None else float(value), "remove": value is None}
                for key, value in quotas.items()
            ],
        }
        return request(ApiKey.ALTER_CLIENT_QUOTAS, version, entries=[entry], validate_only=False)

    for each in client.call(None, ApiKey.ALTER_CLIENT_QUOTAS, build, deadline_ms).entries:
        raise_error(each.error_code, each.error_message, f"quotas of client {client_id!r}")
