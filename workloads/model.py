"""What a load is: the workload of a cell and the plan that `python -m workloads` reads. No I/O, no Locust.

Units are in the names. Unknown keys are errors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from runlog.payload import HEADER_BYTES

CLIENTS = ("reference", "confluent")
ClientName = Literal["reference", "confluent"]
KeyDistribution = Literal["none", "uniform", "zipf", "hot"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Constant(_Model):
    """`rate_per_s` of the workload throughout."""

    kind: Literal["constant"] = "constant"


class Step(_Model):
    rate_per_s: float = Field(ge=0)
    duration_ms: int = Field(gt=0)


class Steps(_Model):
    """One rate after the other; the last one lasts until the end."""

    kind: Literal["steps"]
    steps: tuple[Step, ...] = Field(min_length=1)


class Ramp(_Model):
    """From one rate to another in a straight line over the measured window."""

    kind: Literal["ramp"]
    from_rate_per_s: float = Field(ge=0)
    to_rate_per_s: float = Field(ge=0)


class Spike(_Model):
    """The workload's rate, except for a spell at another."""

    kind: Literal["spike"]
    spike_rate_per_s: float = Field(ge=0)
    at_ms: int = Field(ge=0)
    duration_ms: int = Field(gt=0)


class Sine(_Model):
    """The workload's rate plus and minus `amplitude_share` of it."""

    kind: Literal["sine"]
    amplitude_share: float = Field(default=0.5, ge=0, le=1)
    period_ms: int = Field(gt=0)


class Poisson(_Model):
    """Independent arrivals with the workload's mean rate."""

    kind: Literal["poisson"]


class Replay(_Model):
    """Arrivals as recorded: milliseconds from the start of the measured window, ascending."""

    kind: Literal["replay"]
    times_ms: tuple[float, ...] = Field(min_length=1, max_length=10_000_000)

    @model_validator(mode="after")
    def _ascending(self) -> Replay:
        if any(later < earlier for earlier, later in zip(self.times_ms, self.times_ms[1:], strict=False)):
            raise ValueError("times_ms must ascend")
        if self.times_ms[0] < 0:
            raise ValueError("times_ms must not be negative")
        return self


Schedule = Annotated[Constant | Steps | Ramp | Spike | Sine | Poisson | Replay, Field(discriminator="kind")]


class Workload(_Model):
    """The load of one cell. The rate is that of all producers together; they share one schedule turn by turn."""

    rate_per_s: float = Field(gt=0, le=10_000_000)
    record_size_bytes: int = Field(default=1024, ge=HEADER_BYTES, le=64 * 1024 * 1024)
    compressibility: float = Field(default=0.5, ge=0, le=0.95, description="share that a codec should take away")
    producers: int = Field(default=1, ge=1, le=1024)
    consumers: int = Field(default=0, ge=0, le=1024)
    keys: KeyDistribution = "none"
    key_count: int = Field(default=1000, ge=1, le=1_000_000)
    warmup_ms: int = Field(default=2_000, ge=0, le=3_600_000)
    measure_ms: int = Field(default=10_000, gt=0, le=86_400_000)
    drain_ms: int = Field(default=10_000, ge=0, le=3_600_000)
    processes: int = Field(default=1, ge=1, le=64)
    schedule: Schedule = Field(default_factory=Constant)

    @model_validator(mode="after")
    def _enough_users(self) -> Workload:
        if self.processes > self.producers + self.consumers:
            raise ValueError(f"processes is {self.processes}, more than producers and consumers together")
        return self


class Plan(_Model):
    """One line of JSON on stdin: everything that a load process must know."""

    run_dir: Path
    cell_id: str = Field(min_length=1)
    t0_monotonic_ns: int
    client: ClientName
    bootstrap_servers: str = Field(min_length=1)
    topic: str = Field(min_length=1)
    partitions: int = Field(ge=1)
    properties: dict[str, str] = Field(default_factory=dict)
    consumer_properties: dict[str, str] = Field(default_factory=dict)
    workload: Workload
    seed: int = 0

    @field_validator("properties", "consumer_properties", mode="before")
    @classmethod
    def _as_strings(cls, value: object) -> object:
        """Kafka properties are text: true and 5 of a JSON document become "true" and "5"."""
        if not isinstance(value, dict):
            return value
        return {name: _property_text(setting) for name, setting in value.items()}


def _property_text(setting: object) -> str:
    if isinstance(setting, bool):
        return "true" if setting else "false"
    return str(setting)
