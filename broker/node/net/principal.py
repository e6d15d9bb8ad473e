"""The identity of the peer of a connection: Kafka's KafkaPrincipal, written `User:alice`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")  # the principal of a connection without authentication, as in Kafka
