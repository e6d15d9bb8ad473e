"""PLAIN by RFC 4616, and Kafka's words for what is wrong."""

from __future__ import annotations

import pytest

from broker.security.plain import PlainServer
from broker.security.sasl import SaslRefusedError
from broker.security.sasl_client import Plain

USERS = {"alice": "secret", "Jürgen": "geheim"}


def evaluated(token: bytes) -> str | None:
    return PlainServer(lambda: USERS).evaluate(token).user


@pytest.mark.parametrize("user", USERS)
def test_our_client_and_our_server_understand_each_other(user: str) -> None:
    assert evaluated(Plain(username=user, password=USERS[user]).first()) == user


def test_a_user_may_name_itself_as_the_one_to_act_for() -> None:
    assert evaluated(b"alice\0alice\0secret") == "alice"


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0bob\0secret", "Invalid username or password"),
        (b"\0bob\0", "password not specified"),
        (b"\0\0secret", "username not specified"),
        (b"bob\0alice\0secret", "authorization id"),
        (b"alice\0secret", "expected 3 tokens, got 2"),
        (b"", "expected 3 tokens, got 1"),
        (b"\0a\0b\0c", "expected 3 tokens, got 4"),
        (b"\0\xff\0b", "not UTF-8"),
    ],
)
def test_whoever_does_not_know_the_password_is_refused(token: bytes, told: str) -> None:
    with pytest.raises(SaslRefusedError, match=told):
        evaluated(token)
