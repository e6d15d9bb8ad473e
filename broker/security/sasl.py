"""What every SASL mechanism of a server is: tokens of the client in, tokens for it out, until a user is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class SaslRefusedError(Exception):
    """The client did not prove who it is. The client gets the text, which never says what was wrong with a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`token` goes to the client. `user` is who it is once the exchange has ended well, None before."""

    token: bytes
    user: str | None = None
    is_by_token: bool = False  # a delegation token proved who it is
    expires_ms: int | None = None  # wall clock: when what the user showed is no longer valid; None: it does not end


class SaslServer(Protocol):
    def evaluate(self, token: bytes) -> Outcome:
        """Raises SaslRefusedError: the exchange is over."""
