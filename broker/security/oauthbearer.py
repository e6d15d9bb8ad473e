"""SASL OAUTHBEARER (RFC 7628), the server's side. Shown by tests/broker_security/test_security_tokens.py.

If a token is refused, the server sends a challenge that says so in JSON. The client answers with one byte, and only
then has the exchange failed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from broker.security.sasl import Outcome, SaslRefusedError
from broker.security.tokens import Accepted, TokenError

Accept: TypeAlias = Callable[[str], Accepted]  # raises TokenError
_FIRST = re.compile(r"n,(?:a=([^,\x00-\x20]*))?,\x01((?:[A-Za-z]+=[^\x00\x01]*\x01)*)\x01")
_BEARER = re.compile(r"bearer +(\S+)", re.IGNORECASE)
_INVALID = b'{"status":"invalid_token"}'


class OAuthBearerServer:
    def __init__(self, accept: Accept) -> None:
        self._accept, self._refused = accept, ""

    def evaluate(self, token: bytes) -> Outcome:
        if self._refused:
            raise SaslRefusedError(self._refused)
        found = _FIRST.fullmatch(token.decode("utf-8", errors="replace"))
        if found is None:
            raise SaslRefusedError("Invalid OAUTHBEARER client first message")
        fields = dict(each.split("=", 1) for each in found.group(2).split("\x01") if each)
        bearer = _BEARER.fullmatch(fields.get("auth", ""))
        if bearer is None:
            raise SaslRefusedError("Invalid OAUTHBEARER client first message: 'auth' not specified")
        try:
            accepted = self._accept(bearer.group(1))
        except TokenError as error:
            self._refused = f"{_INVALID.decode()}: the token is not accepted: {error}"
            return Outcome(token=_INVALID)
        if found.group(1) and found.group(1) != accepted.user:
            raise SaslRefusedError(
                "Authentication failed: Client requested an authorization id that is different from the token's"
            )
        return Outcome(token=b"", user=accepted.user, expires_ms=accepted.expires_ms)
