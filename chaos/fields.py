"""The types of values in a scenario's YAML: durations with a unit, Kafka's settings as text. Unknown keys are
errors."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from runlog.files.setting_text import setting_text

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000}


def duration_ms(value: object) -> object:
    """Converts "2s", "200 ms", "1.5s", "1m" to whole milliseconds."""
    if isinstance(value, str) and (found := _DURATION.fullmatch(value.strip())):
        return round(float(found[1]) * _UNIT_MS[found[2]])
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError(f"give a unit: {value}ms or {value}s")
    raise ValueError(f"{value!r} is no duration: write 200ms, 1.5s or 1m")


Duration = Annotated[int, BeforeValidator(duration_ms), Field(ge=0, le=3_600_000)]
Release = Annotated[str, Field(pattern=r"^\d{1,3}\.\d{1,3}\.\d{1,3}$")]  # A release of Apache Kafka.
Settings = dict[str, Annotated[str, BeforeValidator(setting_text)]]


class StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
