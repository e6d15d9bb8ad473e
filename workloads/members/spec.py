"""What one member process is told: a JSON file for Python, the same as Java properties for a JVM. No I/O.

The harness hands it over on stdin, one for each start, since it may hold passwords; what lies beside the journal is a
copy without them. `incarnation` counts the starts of a member.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from workloads.model import Commit


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """`member` is the reader's name and the member's number, like app-0; `consumer` its number in the run log."""

    member: str
    consumer: int
    reader: int
    incarnation: int
    client: str
    bootstrap_servers: str
    topic: str
    group_id: str
    journal: str
    properties: dict[str, str] = field(default_factory=dict)
    start: Literal["earliest", "latest"] = "earliest"
    commit: Commit = "auto"
    processing_us: int = 0
    copy_to: str = ""  # a copier: the topic that it writes to
    transactional_id: str = ""
    producer_properties: dict[str, str] = field(default_factory=dict)

    @property
    def is_copier(self) -> bool:
        return bool(self.copy_to)

    def to_json(self) -> dict[str, Any]:  # JSON's values
        return asdict(self)

    def to_properties(self) -> str:
        """java.util.Properties; the clients' own begin with `consumer.` and `producer.`."""
        values = {
            "member": self.member,
            "consumer_number": str(self.consumer),
            "incarnation": str(self.incarnation),
            "topic": self.topic,
            "journal": self.journal,
            "commit": self.commit,
            "processing_us": str(self.processing_us),
            "copy_to": self.copy_to,
            **{f"consumer.{name}": value for name, value in self.properties.items()},
            "consumer.bootstrap.servers": self.bootstrap_servers,
            "consumer.group.id": self.group_id,
            "consumer.auto.offset.reset": self.start,
            "consumer.enable.auto.commit": "true" if self.commit == "auto" and not self.is_copier else "false",
        }
        if self.is_copier:
            values |= {f"producer.{name}": value for name, value in self.producer_properties.items()}
            values |= {
                "producer.bootstrap.servers": self.bootstrap_servers,
                "producer.transactional.id": self.transactional_id,
            }
        return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in values.items())


def _escaped(text: str) -> str:
    for character in ("\\", ":", "=", "#", "!", " "):
        text = text.replace(character, f"\\{character}")
    return text.replace("\n", "\\n")
