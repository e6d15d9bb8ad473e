"""A limit that a scenario sets for recovery or for the time without acknowledgements, as text: `elect <= 5 s`. And what
must have been seen so that the scenario says anything: `a reader late >= 250ms`."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from chaos.fields import StrictModel, duration_ms

_CRITERION = re.compile(r"(detect|elect|first ack|recover|gap) <= (\S.*)")
_READER_LATE = re.compile(r"a reader late >= (\S.*)")
READER_LATE: Final = "a reader late"
_AREA = re.compile(r"area <= (\d+) record-seconds")


class Criterion(StrictModel):
    """One limit. It is for a figure of recovery (`elect <= 5 s`, `area <= 2000 record-seconds`), or for the longest
    time in the measured window without an acknowledgement (`gap <= 3 s`). Cells without a fault have a gap too.

    `a reader late >= 250ms`: the fault reached some readers and not others. The 90th percentile of the end-to-end
    latency of one group is so much above that of another. If not, the cell is inconclusive."""

    text: str
    figure: str
    limit: float = Field(description="seconds, or record-seconds for `area`")


def criterion(value: object) -> object:
    """Read a limit from its text."""
    if not isinstance(value, str):
        return value
    words = " ".join(value.split())
    if found := _AREA.fullmatch(words):
        return Criterion(text=words, figure="area", limit=float(found[1]))
    if found := _CRITERION.fullmatch(words):
        return Criterion(text=words, figure=found[1], limit=_seconds(found[2]))
    if found := _READER_LATE.fullmatch(words):
        return Criterion(text=words, figure=READER_LATE, limit=_seconds(found[1]))
    raise ValueError(
        f"{value!r} is no criterion: detect, elect, first ack, recover or gap <= a duration like 5s, "
        "area <= N record-seconds, or a reader late >= a duration"
    )


def _seconds(duration: str) -> float:
    limit_ms = duration_ms(duration)
    assert isinstance(limit_ms, int)
    return limit_ms / 1000


Criteria = tuple[Annotated[Criterion, BeforeValidator(criterion)], ...]
