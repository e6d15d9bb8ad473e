"""Messages of wire.py and fault_wire.py to what the link carries, and back. What a peer sends is checked here.

On the link a message is its kind and a mapping of its fields. A kind may mean a question in one direction and its
answer in the other, so each direction has a table of its own. Shown by tests/workloads/test_workloads_hosts_codec.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from workloads.hosts import fault_wire, wire
from workloads.hosts.wire import Message

Table: TypeAlias = Mapping[str, type[Message]]


class WireError(Exception):
    """A peer sent what is no message of this link. Says which field, and what was expected."""


def _table(*kinds: type[Message]) -> Table:
    found = {kind.KIND: kind for kind in kinds}
    assert len(found) == len(kinds)
    assert "" not in found
    return found


LOAD_MASTER_SAYS: Final = _table(
    wire.Welcome, wire.Refused, wire.ClockQuestion, wire.SharePlan, wire.BeginAt, wire.StopSending, wire.StopReceiving,
    wire.AskReport, wire.End, wire.AskFiles, wire.AskChunk, wire.Forget, wire.Certify,
)  # fmt: skip
LOAD_HOST_SAYS: Final = _table(
    wire.Hello, wire.ClockAnswer, wire.StateTold, wire.ReportTold, wire.Problem, wire.Ceiling, wire.FilesOfCell,
    wire.Chunk, wire.NoChunk,
)  # fmt: skip
FAULT_MASTER_SAYS: Final = _table(wire.Welcome, wire.Refused, wire.ClockQuestion, fault_wire.Ask)
FAULT_HOST_SAYS: Final = _table(fault_wire.FaultHello, wire.ClockAnswer, fault_wire.Answer)


def encode(message: Message) -> tuple[str, dict[str, Any]]:
    """The kind, and the fields. Bytes stay bytes: the link carries them."""
    assert message.KIND, f"{type(message).__name__} is part of a message"
    return message.KIND, message.model_dump(mode="json" if message.IS_JSON else "python")


def decode(kind: str, data: object, table: Table) -> Message:
    """WireError for what is no such message."""
    expected = table.get(kind)
    if expected is None:
        raise WireError(f"{kind[:40]!r} is no kind of message here, there are {', '.join(table)}")
    try:
        return expected.model_validate(data)
    except ValidationError as error:
        raise WireError(wire.words_of(error)) from error
