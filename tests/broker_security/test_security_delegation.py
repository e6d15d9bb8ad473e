"""What follows from the key of a cluster: the secrets of tokens, and logins by them."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import replace

import pytest

from broker.security.delegation import DelegationToken, TokenKeys, principal_parts, principal_text
from broker.security.sasl import Outcome, SaslRefusedError
from broker.security.sasl_client import Credentials, SaslError, sasl_client
from broker.security.scram import HASHES, ScramServer

NOW_MS = 1_700_000_000_000
TOKEN = DelegationToken(
    token_id="nLZ1nZWZSZ-TZ1RZ5rZ2ZA",
    owner="User:alice",
    requester="User:admin",
    renewers=("User:bob",),
    issued_ms=NOW_MS,
    expires_ms=NOW_MS + 1_000,
    ends_ms=NOW_MS + 5_000,
)
OTHER = replace(TOKEN, token_id="other", owner="User:eve:eve")


def keys_of(*tokens: DelegationToken) -> tuple[TokenKeys, dict[str, DelegationToken]]:
    return TokenKeys("the cluster's"), {each.token_id: each for each in tokens}


def test_the_secret_is_the_hmac_of_the_id() -> None:
    expected = hmac.new(b"the cluster's", TOKEN.token_id.encode(), hashlib.sha512).digest()
    assert TokenKeys("the cluster's").hmac_of(TOKEN.token_id) == expected
    assert not TokenKeys("").is_enabled


def test_a_token_is_found_by_its_secret_as_long_as_it_is_kept() -> None:
    keys, tokens = keys_of(TOKEN, OTHER)
    secret = keys.hmac_of(TOKEN.token_id)
    assert keys.find(tokens, secret) is TOKEN
    assert keys.known_hmac(tokens, OTHER.token_id) == keys.hmac_of(OTHER.token_id)
    assert keys.find(tokens, secret[:-1]) is None
    renewed = {**tokens, TOKEN.token_id: replace(TOKEN, expires_ms=NOW_MS + 2_000)}
    assert keys.find(renewed, secret) is renewed[TOKEN.token_id]
    assert keys.find({OTHER.token_id: OTHER}, secret) is None
    assert keys.find(tokens, secret) is TOKEN  # an image that was written and not committed is forgotten


def test_a_token_expires_after_its_time_and_its_maximum() -> None:
    assert not TOKEN.is_expired(TOKEN.expires_ms)
    assert TOKEN.is_expired(TOKEN.expires_ms + 1)
    assert replace(TOKEN, expires_ms=NOW_MS + 9_000).is_expired(TOKEN.ends_ms + 1)


def test_owner_and_renewers_may_change_it() -> None:
    assert [TOKEN.may_be_changed_by(f"User:{name}") for name in ("alice", "bob", "admin")] == [True, True, False]


def test_a_name_may_hold_colons() -> None:
    assert principal_parts(principal_text("User", "a:b")) == ("User", "a:b")


def login(
    mechanism: str,
    *,
    password: str | None = None,
    token_id: str = TOKEN.token_id,
    now_ms: int = NOW_MS,
    is_delegated: bool = True,
) -> Outcome:
    keys, tokens = keys_of(TOKEN, OTHER)
    word = base64.b64encode(keys.hmac_of(token_id)).decode() if password is None else password
    credentials = Credentials(mechanism=mechanism, username=token_id, password=word, is_delegated=is_delegated)
    client = sasl_client(credentials, nonce="client")

    def find_token(asked: str, name: str) -> object:
        return keys.login(tokens, asked, name, wall_ms=now_ms, salt=b"a salt of its own")

    server = ScramServer(mechanism, lambda *_: None, nonce="server", find_token=find_token)  # type: ignore[arg-type]
    sent: bytes | None = client.first()
    while sent is not None:
        outcome = server.evaluate(sent)
        sent = client.answer(outcome.token)
    return outcome


@pytest.mark.parametrize("mechanism", HASHES)
def test_its_holder_is_its_owner_until_it_expires(mechanism: str) -> None:
    outcome = login(mechanism)
    assert (outcome.user, outcome.is_by_token, outcome.expires_ms) == ("alice", True, TOKEN.expires_ms)
    assert login(mechanism, token_id=OTHER.token_id).user == "eve:eve"


@pytest.mark.parametrize(
    "wrong",
    [{"password": "x"}, {"token_id": "nobody"}, {"now_ms": TOKEN.expires_ms + 1}, {"is_delegated": False}],
)
def test_others_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises((SaslRefusedError, SaslError), match="invalid credentials"):
        login("SCRAM-SHA-256", **wrong)  # type: ignore[arg-type]


def test_where_there_are_no_tokens_nobody_logs_in_by_one() -> None:
    server = ScramServer("SCRAM-SHA-256", lambda *_: None, nonce="server")
    with pytest.raises(SaslRefusedError, match="invalid credentials"):
        server.evaluate(b"n,,n=a,r=b,tokenauth=true")


def test_other_extensions_are_ignored_and_nonsense_is_refused() -> None:
    def server() -> ScramServer:
        return ScramServer("SCRAM-SHA-256", lambda *_: None, nonce="server")

    with pytest.raises(SaslRefusedError, match="invalid credentials"):
        server().evaluate(b"n,,n=a,r=b,colour=blue")
    for message in (b"n,,n=a,r=b,1=x", b"n,,n=a,r=b,x", b"n,,n=a,r=b,=x"):
        with pytest.raises(SaslRefusedError, match="message format"):
            server().evaluate(message)


def test_the_slow_part_is_done_once_for_each_token_and_mechanism() -> None:
    keys, tokens = keys_of(TOKEN)

    def found(salt: bytes, mechanism: str = "SCRAM-SHA-256") -> bytes:
        login = keys.login(tokens, mechanism, TOKEN.token_id, wall_ms=NOW_MS, salt=salt)
        assert login is not None
        return login.credential.salt

    assert [found(b"first"), found(b"second"), found(b"third", "SCRAM-SHA-512")] == [b"first", b"first", b"third"]
