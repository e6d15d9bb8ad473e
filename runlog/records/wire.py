"""Lines of wire.jsonl: Produce exchanges as the Kafka-aware proxy saw them, one line for each batch of each request."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# A run of records of one producer: producer, incarnation, first seq, last seq.
IdentityRun = tuple[int, int, int, int]


class WireOutcome(StrEnum):
    DELIVERED = "delivered"
    REFUSED = "refused"  # never forwarded; the client got an error
    DROPPED = "dropped"  # appended, but the answer was withheld
    REPLACED = "replaced"  # appended, but the client got an error
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True, kw_only=True)
class WireExchange:
    """One batch in one Produce exchange. If the same crc comes again from the same client and partition, it is a retry:
    attempt 2, 3 and so on."""

    mono_ns: int  # when the request came
    t_us: int = 0  # the same on the run's clock
    proxy: str = ""
    connection: int = -1
    client_id: str = ""
    correlation_id: int | None = None
    topic: str | None = None
    partition: int = -1
    crc: int = -1
    records: int = 0
    attempt: int = 1
    acks: int | None = None
    outcome: WireOutcome
    base_offset: int = -1
    error_code: int = -1
    forwarded: bool | None = None
    answered_ns: int | None = None  # when the answer was passed on; older logs do not have it
    followers: int | None = None  # `refused` has it: requests of the partition that had come after it.
    held_us: int | None = None
    identities: tuple[IdentityRun, ...] | None = None  # The batch has these records, if the harness made them.
    host: str = ""  # the fault host whose proxy saw it; empty: a proxy of the harness
    clock_error_us: float | None = None  # how much its times can be wrong, by that host's clock; None: they are exact
