"""The source of the token for OAUTHBEARER: a function, a file, a token endpoint, or this module itself (unsecured
tokens).

Owns: the token that is in use. A new one is fetched when four fifths of its lifetime have passed, as with Kafka's
sasl.login.refresh.window.factor. There is no thread for it: the token is fetched when a connection has to authenticate.
The caller then waits for the endpoint, for a bounded time. Shown by tests/broker_client/test_client_tokens.py.
"""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlencode, urlsplit

from broker.client import native
from broker.client.core.errors import ConfigurationError
from broker.client.core.oauth import TOKEN_CHARACTERS_MAX, expiry_s, unsecured_token
from broker.client.core.security_config import SecurityConfig
from broker.security.sasl_client import SaslError

_USED_SHARE: Final = 0.8
_TIMEOUT_S: Final = 10.0  # The whole request has this long, if both sasl.login.*.timeout.ms are 0.
_ANSWER_BYTES_MAX: Final = 2 * TOKEN_CHARACTERS_MAX


class TokenSource:
    """`fetch` returns a token and may raise OSError, ValueError or SaslError. Any thread may call a TokenSource."""

    def __init__(self, fetch: Callable[[], str], *, wall_s: Callable[[], float] = time.time) -> None:
        self._fetch, self._wall_s = fetch, wall_s
        self._lock = native.new_lock()
        self._token = ""
        self._refresh_at_s = 0.0

    def __call__(self) -> str:
        """Returns the token. Raises SaslError if there is none."""
        with self._lock:
            if not self._token or self._wall_s() >= self._refresh_at_s:
                self._take()
            return self._token

    def _take(self) -> None:
        try:
            token = self._fetch()
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise SaslError(f"no token: {type(error).__name__}: {error}") from error
        if not isinstance(token, str) or not token or len(token) > TOKEN_CHARACTERS_MAX or "\x01" in token:
            raise SaslError(f"no token: expected a text of 1 to {TOKEN_CHARACTERS_MAX} characters")
        now_s, ends_s = self._wall_s(), expiry_s(token)
        self._token = token
        # A token that does not tell when it expires is fetched each time.
        self._refresh_at_s = now_s if ends_s is None else now_s + _USED_SHARE * max(0.0, ends_s - now_s)


def token_source(config: SecurityConfig) -> TokenSource:
    """The token source that the settings choose. Raises ConfigurationError if the URL is not valid."""
    if config.token_provider is not None:
        return TokenSource(config.token_provider)
    options = {} if config.login is None else config.login.options
    url = urlsplit(config.sasl_oauthbearer_token_endpoint_url)
    if not url.scheme:
        return TokenSource(lambda: unsecured_token(options, time.time()) or "")
    if url.scheme == "file":
        return TokenSource(lambda: Path(url.path).read_text(encoding="ascii").strip())
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigurationError(
            "sasl.oauthbearer.token.endpoint.url: expected https://HOST/PATH, http://HOST/PATH or file:///PATH"
        )
    client_id = config.sasl_oauthbearer_client_credentials_client_id or options.get("clientId", "")
    secret = config.sasl_oauthbearer_client_credentials_client_secret or options.get("clientSecret", "")
    if not client_id or not secret:
        raise ConfigurationError(
            "sasl.oauthbearer.client.credentials.client.id: the token endpoint needs it, and client.secret too"
        )
    scope = config.sasl_oauthbearer_scope or options.get("scope", "")
    timeout_s = (config.sasl_login_connect_timeout_ms + config.sasl_login_read_timeout_ms) / 1000 or _TIMEOUT_S
    return TokenSource(lambda: _asked(config, client_id, secret, scope, timeout_s))


def _asked(config: SecurityConfig, client_id: str, secret: str, scope: str, timeout_s: float) -> str:
    """The access token of the client credentials grant (RFC 6749, 4.4). No message shows the answer of the endpoint,
    because it may contain the token."""
    url = urlsplit(config.sasl_oauthbearer_token_endpoint_url)
    deadline_s = time.monotonic() + timeout_s
    assert url.hostname is not None
    if url.scheme == "https":
        from broker.client.tls import client_context

        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            url.hostname, url.port, timeout=timeout_s, context=client_context(config, with_own_certificate=False)
        )
    else:
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=timeout_s)
    form = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
    headers = {
        "Authorization": "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode(),
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
    }
    try:
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        connection.request("POST", path, body=urlencode(form), headers=headers)
        answer = connection.getresponse()
        body = _read(answer, deadline_s)
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise SaslError(f"no token: the endpoint answers with {answer.status} {answer.reason}")
    found = json.loads(body)
    token = found.get("access_token") if isinstance(found, dict) else None
    if not isinstance(token, str):
        raise SaslError("no token: the endpoint's answer has no access_token")
    return token


def _read(answer: http.client.HTTPResponse, deadline_s: float) -> bytes:
    body = b""
    while part := answer.read1(_ANSWER_BYTES_MAX):
        body += part
        if len(body) > _ANSWER_BYTES_MAX:
            raise OSError(f"the endpoint's answer has more than {_ANSWER_BYTES_MAX} bytes")
        if time.monotonic() > deadline_s:
            raise TimeoutError("the endpoint does not end its answer")
    return body
