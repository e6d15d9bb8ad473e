"""A token endpoint for SASL OAUTHBEARER, for one cluster of the harness: OAuth's client credentials grant (RFC 6749,
4.4).

It listens on loopback, in a thread of the harness. Its tokens are JWTs that live for some seconds, signed with RS256 by
a key of its own, which the program openssl uses. Brokers check them by the key set (JWKS) in a file. It can be told to
give one user none. Shown by tests/harness/test_harness_token_endpoint.py.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

from harness.clusters.secured.authority import openssl
from harness.errors import EnvironmentFault

# So short that a cell sees many end; so long that a login on a busy host takes less.
LIFETIME_S: Final = 10
GIVEN: Final = "given"
REFUSED: Final = "refused"
_KEY_ID: Final = "of-this-run"
_BODY_BYTES_MAX: Final = 10_000
_TIMEOUT_S: Final = 20.0


class TokenEndpoint:
    """`passwords` by user are the clients' secrets. Its files are made in `directory`. `close` ends it."""

    def __init__(self, directory: Path, passwords: Mapping[str, str], *, lifetime_s: float = LIFETIME_S) -> None:
        self._passwords, self._lifetime_s = passwords, lifetime_s
        self._key = directory / "tokens.key"
        keys = directory / "tokens.jwks.json"
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(self._key))
        modulus = openssl("rsa", "-in", str(self._key), "-noout", "-modulus").strip().rpartition("=")[2]
        key = {
            "kty": "RSA",
            "use": "sig",
            "alg": "RS256",
            "kid": _KEY_ID,
            "e": "AQAB",
            "n": _encoded(bytes.fromhex(modulus)),
        }
        keys.write_text(json.dumps({"keys": [key]}))
        self.keys_url = keys.resolve().as_uri()
        self._lock = threading.Lock()
        self._forbidden: set[str] = set()
        self._counts: dict[str, Counter[str]] = {user: Counter() for user in passwords}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, name="token-endpoint", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """May be called twice."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_TIMEOUT_S)

    def forbid(self, user: str) -> None:
        """From now on, until `allow`, the user gets no token."""
        with self._lock:
            self._forbidden.add(user)

    def allow(self, user: str) -> None:
        with self._lock:
            self._forbidden.discard(user)

    def counts(self, user: str) -> Mapping[str, int]:
        with self._lock:
            return {GIVEN: self._counts[user][GIVEN], REFUSED: self._counts[user][REFUSED]}

    def token(self, user: str) -> str | None:
        """A token, or None for a user who must not get one. OSError or EnvironmentFault if it cannot be signed."""
        with self._lock:
            is_refused = user in self._forbidden
            self._counts[user][REFUSED if is_refused else GIVEN] += 1
        return None if is_refused else self._signed(user)

    def is_right(self, user: str, password: str) -> bool:
        return (
            hmac.compare_digest(self._passwords.get(user, "").encode(), password.encode()) and user in self._passwords
        )

    @property
    def lifetime_s(self) -> float:
        return self._lifetime_s

    def _signed(self, user: str) -> str:
        now_s = time.time()
        claims = {"sub": user, "scope": "kafka", "iat": int(now_s), "exp": int(now_s + self._lifetime_s)}
        text = f"{_part({'alg': 'RS256', 'kid': _KEY_ID, 'typ': 'JWT'})}.{_part(claims)}"
        try:
            done = subprocess.run(
                ("openssl", "dgst", "-sha256", "-sign", str(self._key)),
                input=text.encode(), capture_output=True, timeout=_TIMEOUT_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise EnvironmentFault("openssl did not sign a token in time") from error
        if done.returncode != 0:
            raise EnvironmentFault(f"openssl could not sign a token: {done.stderr.decode(errors='replace')[-200:]}")
        return f"{text}.{_encoded(done.stdout)}"


def _handler(endpoint: TokenEndpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _TIMEOUT_S

        def do_POST(self) -> None:
            size = self.headers.get("Content-Length", "")
            if not size.isdigit() or int(size) > _BODY_BYTES_MAX:
                self._answer(HTTPStatus.BAD_REQUEST, {"error": "invalid_request"})
                return
            form = parse_qs(self.rfile.read(int(size)).decode(errors="replace"))
            user = _user_of(self.headers.get("Authorization", ""), endpoint)
            if user is None:
                self._answer(HTTPStatus.UNAUTHORIZED, {"error": "invalid_client"})
            elif form.get("grant_type") != ["client_credentials"]:
                self._answer(HTTPStatus.BAD_REQUEST, {"error": "unsupported_grant_type"})
            else:
                self._give(user)

        def _give(self, user: str) -> None:
            try:
                token = endpoint.token(user)
            except (OSError, EnvironmentFault):
                self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "server_error"})
                return
            if token is None:
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "temporarily_unavailable"})
                return
            fields = {"access_token": token, "token_type": "Bearer", "expires_in": int(endpoint.lifetime_s)}
            self._answer(HTTPStatus.OK, fields)

        def _answer(self, status: HTTPStatus, fields: Mapping[str, object]) -> None:
            body = json.dumps(fields).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Writes nothing, because no log of requests is needed."""

    return Handler


def _user_of(authorization: str, endpoint: TokenEndpoint) -> str | None:
    scheme, _, encoded = authorization.partition(" ")
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return user if scheme.lower() == "basic" and endpoint.is_right(user, password) else None


def _part(fields: Mapping[str, object]) -> str:
    return _encoded(json.dumps(fields, separators=(",", ":")).encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
