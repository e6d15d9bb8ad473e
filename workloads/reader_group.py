"""The consumers of a load: a part of its model. No I/O, no Locust."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Commit = Literal["auto", "after", "before"]


class StrictModel(BaseModel):
    """A part of the model of a load. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def property_text(setting: object) -> str:
    if isinstance(setting, bool):
        return "true" if setting else "false"
    return str(setting)


class ReaderGroup(StrictModel):
    """Consumers that together read everything once. Several groups read side by side, each at its own pace."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=40)
    consumers: int = Field(default=1, ge=1, le=1024)
    mode: Literal["assign", "group", "share"] = Field(
        default="assign",
        description="fixed partitions each, or members of a consumer group or a share group of the reader's name",
    )
    start: Literal["earliest", "latest"] = "earliest"
    start_after_ms: int | None = Field(
        default=None,
        ge=0,
        le=86_400_000,
        description="a catch-up reader: begins so long after the measured window did, behind a backlog; none: at once",
    )
    processing_us: int = Field(default=0, ge=0, le=60_000_000, description="what the application takes for each record")
    properties: dict[str, str] = Field(default_factory=dict, description="consumer properties, Kafka's names")
    producer_properties: dict[str, str] = Field(
        default_factory=dict, description="of a copier's producer, beside linger.ms and the like of the load's own"
    )
    own_processes: bool = Field(
        default=False, description="each member is a process of its own, which a fault can kill, pause or make leave"
    )
    commit: Commit = Field(
        default="auto",
        description="auto: enable.auto.commit; after: when a poll's records are processed; before: ahead of "
        "processing; with mode: share, auto: implicit acknowledgement by the next poll; after: each record explicitly",
    )
    group_settings: dict[str, str] = Field(
        default_factory=dict, description="of mode: share, settings of the group at the broker, Kafka's names"
    )
    rejects_every: int = Field(
        default=0, ge=0, description="of mode: share, commit: after: reject records whose offset this divides; 0: none"
    )
    releases_every: int = Field(
        default=0, ge=0, description="as rejects_every, for records that are released when they first come"
    )
    copies: bool = Field(
        default=False,
        description="a transactional copier: what a poll gives goes to the topic <topic>-copy, with the offsets of the "
        "group, in one transaction",
    )
    reads: Literal["topic", "copies"] = Field(
        default="topic", description="copies: an auditor, who reads what copiers have written"
    )
    deduplicate: Literal["none", "table", "redis"] = Field(
        default="none",
        description="remove records that come again, by a table in each load process or by a Redis server",
    )
    deduplicate_entries: int = Field(
        default=1_000_000, ge=1, le=50_000_000, description="of the table: what is older than so many is forgotten"
    )
    deduplicate_keep_ms: int = Field(
        default=600_000, ge=1, le=86_400_000, description="of Redis: what is older than that is forgotten"
    )
    redis_url: str = Field(default="redis://127.0.0.1:6379/0", pattern=r"^(redis|rediss|unix)://", max_length=500)

    @field_validator("properties", "producer_properties", "group_settings", mode="before")
    @classmethod
    def _as_strings(cls, value: object) -> object:
        """Kafka properties are text: false and 500 of a YAML file become "false" and "500"."""
        return {name: property_text(setting) for name, setting in value.items()} if isinstance(value, dict) else value

    def group_id(self, topic: str) -> str:
        """Of its group, if it is one. Two runs have no topic in common, so they have no group in common either."""
        return f"{topic}-{self.name}"

    @model_validator(mode="after")
    def _fits_together(self) -> ReaderGroup:
        if self.own_processes and self.mode == "assign":
            raise ValueError(f"reader {self.name}: own_processes needs mode: group or share, got mode: {self.mode}")
        self._shares_well()
        if self.own_processes and self.start_after_ms is not None:
            raise ValueError(f"reader {self.name}: start_after_ms is for readers inside the load process")
        if not self.own_processes and (self.commit != "auto" or self.copies or self.reads != "topic"):
            raise ValueError(f"reader {self.name}: commit, copies and reads need own_processes: true")
        if self.own_processes and self.deduplicate != "none":
            raise ValueError(f"reader {self.name}: deduplicate is for readers inside the load process")
        if self.copies and self.reads != "topic":
            raise ValueError(f"reader {self.name}: a copier reads the topic, not the copies")
        if self.producer_properties and not self.copies:
            raise ValueError(f"reader {self.name}: producer_properties belong to copies: true")
        if self.copies and self.commit != "auto":
            raise ValueError(f"reader {self.name}: a copier commits its offsets in the transaction: leave commit out")
        return self

    def _shares_well(self) -> None:
        chooses = bool(self.rejects_every or self.releases_every)
        if self.mode != "share":
            if self.group_settings or chooses:
                raise ValueError(
                    f"reader {self.name}: group_settings, rejects_every and releases_every need mode: share"
                )
            return
        if not self.own_processes:
            raise ValueError(f"reader {self.name}: mode: share needs own_processes: true")
        if self.commit == "before" or self.copies or self.reads != "topic":
            raise ValueError(f"reader {self.name}: members of a share group read the topic, and acknowledge afterwards")
        if chooses and self.commit != "after":
            raise ValueError(f"reader {self.name}: rejects_every and releases_every need commit: after")
