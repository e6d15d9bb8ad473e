"""A limit that a scenario sets for recovery or for the time without acknowledgements, as text: `elect <= 5 s`."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from chaos.fields import StrictModel, duration_ms

_CRITERION = re.compile(r"(detect|elect|first ack|recover|gap) <= (\S.*)")
_AREA = re.compile(r"area <= (\d+) record-seconds")


class Criterion(StrictModel):
    """One limit. It is for a figure of recovery (`elect <= 5 s`, `area <= 2000 record-seconds`), or for the longest
    time in the measured window without an acknowledgement (`gap <= 3 s`). Cells without a fault have a gap too."""

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
        limit_ms = duration_ms(found[2])
        assert isinstance(limit_ms, int)
        return Criterion(text=words, figure=found[1], limit=limit_ms / 1000)
    raise ValueError(
        f"{value!r} is no criterion: detect, elect, first ack, recover or gap <= a duration like 5s, "
        "or area <= N record-seconds"
    )


Criteria = tuple[Annotated[Criterion, BeforeValidator(criterion)], ...]
