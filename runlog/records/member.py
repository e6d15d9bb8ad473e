"""members/<member>-<n>.json: what one start of a member process was told.

The process itself gets it on standard input, since it may hold passwords. The file is a copy without them.
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
    processing_us: int = 0  # that one record takes
    copy_to: str = ""  # of a copier: the topic that it writes to
    transactional_id: str = ""
    producer_properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_copier(self) -> bool:
        return bool(self.copy_to)
