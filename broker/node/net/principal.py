"""Who is at the other end of a connection: Kafka's KafkaPrincipal, written `User:alice`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Principal:
    kind: str
    name: str
    # A delegation token proved it. Who is let in by a token may ask for no further one.
    is_by_token: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")  # of a connection on which nobody proved who they are, as in Kafka
