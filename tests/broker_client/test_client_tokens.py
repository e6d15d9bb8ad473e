"""Where tokens of OAUTHBEARER come from: a function, a file, a token endpoint; when they are taken anew."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from broker.client.core.errors import ConfigurationError
from broker.client.core.oauth import unsecured_token
from broker.client.core.security_config import SecurityConfig, parse_security
from broker.client.tokens import TokenSource, token_source
from broker.security.sasl_client import SaslError

BEARER = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
URL = "sasl.oauthbearer.token.endpoint.url"
CREDENTIALS = {
    "sasl.oauthbearer.client.credentials.client.id": "alice",
    "sasl.oauthbearer.client.credentials.client.secret": "wonder",
    "sasl.oauthbearer.scope": "kafka",
}


def token(now_s: float, lifetime_s: int) -> str:
    options = {"unsecuredLoginStringClaim_sub": "alice", "unsecuredLoginLifetimeSeconds": str(lifetime_s)}
    made = unsecured_token(options, now_s)
    assert made is not None
    return made


def config(**more: object) -> SecurityConfig:
    return parse_security({**BEARER, **more})


def test_a_token_is_used_for_four_fifths_of_its_time() -> None:
    now_s, fetched = 1000.0, []

    def fetch() -> str:
        fetched.append(now_s)
        return token(now_s, 100)

    source = TokenSource(fetch, wall_s=lambda: now_s)
    first = source()
    now_s = 1079.0
    assert source() == first
    now_s = 1081.0
    assert source() != first
    assert fetched == [1000.0, 1081.0]


def test_a_function_a_file_and_the_options_give_tokens(tmp_path: Path) -> None:
    assert token_source(config(**{"sasl.login.callback.handler.class": lambda: "abc"}))() == "abc"
    file = tmp_path / "token"
    file.write_text("from-a-file\n")
    assert token_source(config(**{URL: file.as_uri()}))() == "from-a-file"
    file.unlink()
    with pytest.raises(SaslError, match="no token: FileNotFoundError"):
        token_source(config(**{URL: file.as_uri()}))()
    options = "M required unsecuredLoginStringClaim_sub=alice;"
    assert token_source(config(**{"sasl.jaas.config": options}))().endswith(".")
    with pytest.raises(SaslError, match="expected a text"):
        token_source(config(**{"sasl.login.callback.handler.class": lambda: ""}))()


@contextmanager
def endpoint(answer: Callable[[str, str], tuple[int, object]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, told = answer(self.headers["Authorization"], body)
            data = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *details: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_a_token_endpoint_is_asked_for_client_credentials() -> None:
    asked: list[tuple[str, str]] = []

    def answer(authorization: str, body: str) -> tuple[int, object]:
        asked.append((authorization, body))
        return 200, {"access_token": "of-the-endpoint", "token_type": "Bearer"}

    with endpoint(answer) as url:
        assert token_source(config(**{URL: url}, **CREDENTIALS))() == "of-the-endpoint"
    assert asked == [
        ("Basic " + base64.b64encode(b"alice:wonder").decode(), "grant_type=client_credentials&scope=kafka")
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("status", "told", "words"), [(401, {"x": "wonder"}, "401"), (200, ["no"], "access_token")])
def test_what_an_endpoint_refuses_is_told_without_its_text(status: int, told: object, words: str) -> None:
    with endpoint(lambda authorization, body: (status, told)) as url:
        with pytest.raises(SaslError, match=words) as error:
            token_source(config(**{URL: url}, **CREDENTIALS))()
        assert "wonder" not in str(error.value)
    with pytest.raises(SaslError, match="no token: ConnectionRefusedError"):
        token_source(config(**{URL: url}, **CREDENTIALS))()


def test_a_url_without_credentials_or_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"client\.id"):
        token_source(config(**{URL: "https://127.0.0.1/token"}))
    with pytest.raises(ConfigurationError, match="expected https://"):
        token_source(config(**{URL: "ftp://127.0.0.1/token"}, **CREDENTIALS))
