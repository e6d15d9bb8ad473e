"""members/<member>-<n>.json: the instructions for one start of a member process.

The process gets them on standard input, because they may contain passwords. The file is a copy without passwords.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    member: str  # the reader's name and the member's number, like app-0
    consumer: int  # its number in the run log
    reader: int  # number of its group of readers in the run log
    incarnation: int  # counts the starts of this member
    client: str
    bootstrap_servers: str
    topic: str
    group_id: str
    journal: str  # path of the file beside this one
    properties: Mapping[str, str] = field(default_factory=dict)  # Kafka consumer properties
    start: Literal["earliest", "latest"] = "earliest"
    commit: Literal["auto", "after", "before"] = "auto"  # in relation to the processing of a record
    processing_us: int = 0  # processing time of one record
    copy_to: str = ""  # A copier writes to this topic.
    transactional_id: str = ""
    producer_properties: Mapping[str, str] = field(default_factory=dict)
    is_share: bool = False  # a member of a share group; `commit` auto: implicit acknowledgement, after: explicit
    group_settings: Mapping[str, str] = field(default_factory=dict)  # The share group gets them, at the broker.
    rejects_every: int = 0
    releases_every: int = 0
    runtime: Mapping[str, str] = field(default_factory=dict)  # how a client that is a program of its own is started

    @property
    def is_copier(self) -> bool:
        return bool(self.copy_to)
