"""The token endpoint of a run: who has the secret gets a token that brokers accept, and nobody else does."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.client.core.security_config import parse_security
from broker.client.tokens import token_source
from broker.security.sasl_client import SaslError
from broker.security.signatures import parse_jwks
from broker.security.tokens import Rules, TokenError, accept
from harness.clusters.secured.token_endpoint import TokenEndpoint

pytestmark = pytest.mark.slow  # OpenSSL makes the certificates


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenEndpoint]:
    made = TokenEndpoint(tmp_path_factory.mktemp("tokens"), {"load": "right", "harness": "other"}, lifetime_s=30)
    yield made
    made.close()


def asked(endpoint: TokenEndpoint, user: str, password: str) -> str:
    """By the reference client, as the load asks."""
    return token_source(
        parse_security({
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": endpoint.url,
            "sasl.oauthbearer.client.credentials.client.id": user,
            "sasl.oauthbearer.client.credentials.client.secret": password,
        })
    )()  # fmt: skip


def test_brokers_accept_its_tokens_until_they_end(endpoint: TokenEndpoint) -> None:
    token = asked(endpoint, "load", "right")
    keys = parse_jwks(Path(endpoint.keys_url.removeprefix("file://")).read_bytes())
    rules = Rules(clock_skew_ms=0)
    found = accept(token, rules, keys, int(time.time() * 1000))
    assert found.user == "load"
    with pytest.raises(TokenError):
        accept(token, rules, keys, int((time.time() + 31) * 1000))


@pytest.mark.parametrize(("user", "password"), [("load", "wrong"), ("nobody", "right"), ("load", "other")])
def test_nobody_else_gets_one(endpoint: TokenEndpoint, user: str, password: str) -> None:
    with pytest.raises(SaslError, match="401"):
        asked(endpoint, user, password)


def test_a_user_who_is_to_get_none_gets_none_and_others_do(endpoint: TokenEndpoint) -> None:
    before = endpoint.counts("load")
    endpoint.forbid("load")
    try:
        with pytest.raises(SaslError, match="503"):
            asked(endpoint, "load", "right")
        assert asked(endpoint, "harness", "other")
    finally:
        endpoint.allow("load")
    assert asked(endpoint, "load", "right")
    assert endpoint.counts("load") == {"given": before["given"] + 1, "refused": before["refused"] + 1}


def test_its_key_set_holds_no_private_part(endpoint: TokenEndpoint) -> None:
    (key,) = json.loads(Path(endpoint.keys_url.removeprefix("file://")).read_text())["keys"]
    assert set(key) == {"kty", "use", "alg", "kid", "e", "n"}
