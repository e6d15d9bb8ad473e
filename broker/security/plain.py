"""SASL PLAIN (RFC 4616), the server's side. Shown by tests/broker_security/test_security_plain.py."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping

from broker.security.sasl import Outcome, SaslRefusedError

_REFUSED = "Authentication failed: Invalid username or password"


class PlainServer:
    """`users` returns the present passwords. It is called when the client's only token arrives."""

    def __init__(self, users: Callable[[], Mapping[str, str]]) -> None:
        self._users = users

    def evaluate(self, token: bytes) -> Outcome:
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise SaslRefusedError("Authentication failed: the token is not UTF-8") from None
        if len(parts) != 3:
            raise SaslRefusedError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization, user, password = parts
        if not user or not password:
            missing = "username" if not user else "password"
            raise SaslRefusedError(f"Authentication failed: {missing} not specified")
        expected = self._users().get(user)
        # The comparison is always made, so an unknown user takes as long as a wrong password.
        is_right = hmac.compare_digest((expected or "").encode(), password.encode())
        if expected is None or not is_right:
            raise SaslRefusedError(_REFUSED)
        if authorization and authorization != user:
            raise SaslRefusedError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return Outcome(token=b"", user=user)
