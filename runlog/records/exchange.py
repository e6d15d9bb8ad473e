"""Lines of an exchange log: each request that a Kafka-aware proxy saw, with what became of it, for all APIs.

An exchange log belongs to a proxy that was asked for it (chaos/toxiproxy/kafka/exchange_log.py), not to a cell. Its
times are those of the host's monotonic clock. `read_exchanges` reads it, also while it is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from runlog.records.codec import from_line

TopicPartition = tuple[str, int]  # partition -1: the topic as a whole


class ExchangeOutcome(StrEnum):
    DELIVERED = "delivered"  # the client got the broker's response
    ALTERED = (
        "altered"  # the broker worked on it; the client got its response with other contents, but without an error
    )
    REPLACED = "replaced"  # the broker worked on it; the client got an error of a toxic
    REFUSED = "refused"  # the broker never got it; the client got an error of a toxic
    DROPPED = "dropped"  # the broker has answered; the client did not get it, or not all of it
    UNANSWERED = "unanswered"  # the client got no answer, and none is known; `is_forwarded` says if the broker got it


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaExchange:
    """One request and its response."""

    mono_ns: int  # when the request had arrived at the proxy, on the monotonic clock of its host
    ended_ns: int  # when its outcome was known: the response was passed on, or the connection ended
    proxy: str
    connection: int  # counted for each proxy, from 1
    client_id: str = ""
    api: str  # Kafka's name; for an API that is not known, "ApiKey 999"
    api_version: int
    correlation_id: int
    request_bytes: int  # with the length field, as all sizes here
    response_bytes: int = 0  # It counts the response that the client got, or was to get. 0: there is none.
    groups: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()  # the first ones of those that the request names
    partition_count: int = 0  # It counts all that the request names.
    # The different error codes in the response that the client got, without 0. None: there is none, or it was not read.
    error_codes: tuple[int, ...] | None = None
    outcome: ExchangeOutcome
    is_forwarded: bool = True  # whether the broker got the request
    toxics: tuple[str, ...] = ()  # the names of those that acted on it
    request: str | None = None  # the frame with its length, base64, if frames were asked for and it is not too long
    response: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangesStopped:
    """The last line of a proxy that logs no further exchange."""

    stopped_ns: int
    proxy: str
    cause: str


def read_exchanges(
    path: Path, *, start_byte: int = 0, having: bytes = b""
) -> Iterator[KafkaExchange | ExchangesStopped]:
    """The records of an exchange log, in the order in which the exchanges ended. An incomplete last line is left out.

    `start_byte` is where to begin, for example the file's size before something happened. A line that had begun before
    is left out too: a log that is written may end in the middle of one. `having`: lines without these bytes are not
    even parsed. RecordError for a whole line that is no record.
    """
    with path.open("rb") as file:
        if start_byte > 0:
            file.seek(start_byte - 1)
            file.readline()  # the end of the line before, or all that is left of it
        for line in file:
            if having in line and line.endswith(b"\n") and line.strip():
                found = json.loads(line)
                yield from_line(ExchangesStopped, found) if "stopped_ns" in found else from_line(KafkaExchange, found)
