"""The interface of a server's SASL mechanism. It takes tokens of the client and returns tokens, until the user is
known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class SaslRefusedError(Exception):
    """The client could not authenticate. It gets the text, which never says what was wrong with a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`token` goes to the client. `user` is the authenticated user once the exchange has succeeded, None before."""

    token: bytes
    user: str | None = None
    expires_ms: int | None = None  # wall clock: when the token that the user presented expires; None: never


class SaslServer(Protocol):
    def evaluate(self, token: bytes) -> Outcome:
        """Process a token of the client. If it raises SaslRefusedError, the exchange is over."""
