"""Tokens for SASL OAUTHBEARER (RFC 7628): when a token expires, and how to make an unsecured token, which only tests
and trials may use.

Pure: the caller passes the time. A token is a JWT (RFC 7519). A client only reads when the token expires. It does not
check the signature; the broker does. Shown by tests/broker_client/test_client_sasl.py.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final

# Options of the login module for Kafka's unsecured tokens.
CLAIM_PREFIX: Final = "unsecuredLoginStringClaim_"
LIFETIME_OPTION: Final = "unsecuredLoginLifetimeSeconds"
LIFETIME_S: Final = 3600  # Kafka's default
TOKEN_CHARACTERS_MAX: Final = 65_536


def unsecured_token(options: Mapping[str, str], now_s: float) -> str | None:
    """A token like that of Kafka's OAuthBearerUnsecuredLoginCallbackHandler. None if the options contain no `sub`."""
    claims: dict[str, object] = {
        name.removeprefix(CLAIM_PREFIX): value for name, value in options.items() if name.startswith(CLAIM_PREFIX)
    }
    if "sub" not in claims:
        return None
    lifetime_s = int(options.get(LIFETIME_OPTION, LIFETIME_S))
    claims |= {"iat": round(now_s, 3), "exp": round(now_s + lifetime_s, 3)}
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


def expiry_s(token: str) -> float | None:
    """When the token expires, in seconds since 1970. None if the token does not tell."""
    claims = _claims(token)
    expiry = claims.get("exp")
    return float(expiry) if isinstance(expiry, int | float) and not isinstance(expiry, bool) else None


def _claims(token: str) -> dict[str, Any]:  # Any: JSON
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _encoded(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part, separators=(",", ":")).encode()).decode().rstrip("=")
