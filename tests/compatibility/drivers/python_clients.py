"""What the drivers of aiokafka and kafka-python have in common: keyword arguments, and the shape of a record.

It imports neither library, because each driver runs in an environment that has only one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any  # arguments and records of two untyped libraries

from rpc import text

_PRODUCER = {
    "acks": "acks",
    "codec": "compression_type",
    "idempotence": "enable_idempotence",
    "linger_ms": "linger_ms",
    "transactional_id": "transactional_id",
}


def producer_arguments(config: Mapping[str, Any]) -> dict[str, Any]:
    arguments = {_PRODUCER[key]: value for key, value in config.items()}
    arguments["acks"] = "all" if arguments["acks"] == "all" else int(arguments["acks"])
    if arguments.get("compression_type") == "none":
        arguments.pop("compression_type")
    return arguments


def consumer_arguments(config: Mapping[str, Any]) -> dict[str, Any]:
    """Without the group protocol and the assignor, which each library has in its own way."""
    arguments: dict[str, Any] = {
        "group_id": config.get("group"),
        "auto_offset_reset": config["reset"],
        "enable_auto_commit": config.get("auto_commit", False),
        "isolation_level": config.get("isolation", "read_uncommitted"),
        "fetch_max_wait_ms": 100,
        "metadata_max_age_ms": 2_000,
        "heartbeat_interval_ms": 1_000,
    }
    if "instance" in config:
        arguments["group_instance_id"] = config["instance"]
        arguments["session_timeout_ms"] = config["session_timeout_ms"]
    return arguments


def polled(found: Mapping[Any, Sequence[Any]], consumer: Any) -> dict[str, Any]:
    """The answer to `poll`: what the library's consumer returned, by partition, and what is assigned to it."""
    records = [
        {
            "partition": record.partition,
            "offset": record.offset,
            "key": text(record.key),
            "value": text(record.value),
            "headers": [[key, value.decode()] for key, value in record.headers],
            "timestamp": record.timestamp,
            "timestamp_type": record.timestamp_type,
        }
        for batch in found.values()
        for record in batch
    ]
    return {"records": records, "assignment": [each.partition for each in consumer.assignment()]}
