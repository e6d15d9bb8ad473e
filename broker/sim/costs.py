"""How long the work of a broker takes, in virtual time. While a process works, it is busy, and what arrives must wait.

Owns the costs of requests: frames, elements of their arrays, records of a batch, and of the batches that they read in
logs. The costs of the disk are in disk.py.
The costs are chosen, not measured, and are those of a slow host. Timeouts of the simulation are a tenth of the
defaults, and its logs are short. So work that grows with a whole log or a whole request must cost more here. Otherwise
it would not show as a stall. Shown by tests/broker_sim/test_sim_costs.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from broker.log import compaction, time_search
from broker.mutants import Patch
from broker.node.coordination import loading
from broker.node.net import connection
from broker.node.net.connection import Connection
from broker.node.replicas import produce_checks
from broker.sim.loop import spend_us
from broker.wire.compression import Buffer

FRAME_US: Final = 50
FRAME_BYTES_PER_US: Final = 20
ELEMENTS_PER_MS: Final = 50  # elements of a request's arrays, decoded and looked up
WIDE: Final = 1_000  # in an array of at least this length, nested arrays are not counted
RECORDS_PER_MS: Final = 500  # records of a batch, checked or walked one by one
# Bytes that a batch unpacks to. What is less than this costs nothing, as do fewer records than those above in one walk.
UNPACKED_BYTES_PER_CHARGE: Final = 1 << 20
UNPACKED_US: Final = 5_000
T = TypeVar("T")


@contextlib.contextmanager
def requests_charged() -> Iterator[None]:
    """Within this context, brokers spend time on the requests that they receive."""
    patch = Patch()
    handle_frame, decode_body = Connection._handle_frame, connection.__dict__["decode_request_body"]
    check_records = produce_checks.__dict__["check_records"]
    record_heads = produce_checks.__dict__["record_heads"]

    def charged_frame(self: Connection, frame: memoryview) -> None:
        spend_us(FRAME_US + len(frame) // FRAME_BYTES_PER_US)
        handle_frame(self, frame)

    def charged_body(header: Any, frame: memoryview, *, elements_max: int) -> Any:  # Any: kio's messages
        message = decode_body(header, frame, elements_max=elements_max)
        spend_us(_elements(message) * 1_000 // ELEMENTS_PER_MS)
        return message

    def charged_check(body: Buffer, count: int) -> Any:
        spend_us(count * 1_000 // RECORDS_PER_MS)
        return check_records(body, count)

    def charged_heads(body: Buffer, count: int) -> Any:
        spend_us(count * 1_000 // RECORDS_PER_MS)
        return record_heads(body, count)

    for module, walk in _WALKS:
        patch.set(module, walk, _walk_charged(module.__dict__[walk]))
    for module, unpack in _UNPACKING:
        patch.set(module, unpack, _unpacking_charged(module.__dict__[unpack]))
    patch.set(Connection, "_handle_frame", charged_frame)
    patch.set(connection, "decode_request_body", charged_body)
    patch.set(produce_checks, "check_records", charged_check)
    patch.set(produce_checks, "record_heads", charged_heads)
    try:
        yield
    finally:
        patch.undo()


# What reads the records of a stored batch, and what unpacks a batch.
_WALKS: Final[Sequence[tuple[Any, str]]] = (
    (time_search, "record_heads"),
    (compaction, "record_spans"),
    (loading, "iter_fields"),
)
_UNPACKING: Final[Sequence[tuple[Any, str]]] = (
    (time_search, "body_of"),
    (compaction, "body_of"),
    (loading, "body_of"),
    (produce_checks, "decompress"),
)


def _walk_charged(walk: Callable[..., Iterable[T]]) -> Callable[..., Iterator[T]]:
    def charged(*arguments: Any) -> Iterator[T]:
        for number, each in enumerate(walk(*arguments), start=1):
            if number % RECORDS_PER_MS == 0:
                spend_us(1_000)
            yield each

    return charged


def _unpacking_charged(unpack: Callable[..., bytes]) -> Callable[..., bytes]:
    def charged(*arguments: Any, **options: Any) -> bytes:
        body = unpack(*arguments, **options)
        spend_us(len(body) // UNPACKED_BYTES_PER_CHARGE * UNPACKED_US)
        return body

    return charged


def _elements(message: Any) -> int:
    """The number of elements of the message's arrays, and of the arrays inside them."""
    count = 0
    for name in message.__dataclass_fields__:
        value = getattr(message, name)
        if type(value) is tuple:
            count += len(value)
            if value and hasattr(value[0], "__dataclass_fields__"):
                count += sum(map(_elements, value)) if len(value) < WIDE else len(value)
    return count
