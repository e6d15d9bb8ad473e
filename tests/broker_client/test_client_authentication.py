"""The SASL exchange as a client decides it: what is asked, what an answer means, when a session is renewed."""

from __future__ import annotations

from typing import Any

import pytest

from broker.client.core.authentication import NEVER_MS, SASL_AUTHENTICATE, SASL_HANDSHAKE, TOKENS_MAX, Authentication
from broker.client.core.errors import AuthenticationError
from broker.security.sasl_client import Credentials
from broker.wire.errors import ErrorCode
from broker.wire.messages import build, response_type

OFFERED = {SASL_HANDSHAKE: (0, 1), SASL_AUTHENTICATE: (0, 2)}


def made(offered: dict[int, tuple[int, int]] = OFFERED, *, spread: float = 0.0, **changed: Any) -> Authentication:
    credentials = Credentials(**{"mechanism": "PLAIN", "username": "alice", "password": "wonder", **changed})
    return Authentication(credentials, offered.get, new_nonce=lambda: "nonce", spread=spread)


def shaken(code: ErrorCode = ErrorCode.none, mechanisms: tuple[str, ...] = ("PLAIN",)) -> Any:
    return build(response_type(SASL_HANDSHAKE, 1), {"error_code": code, "mechanisms": mechanisms})


def answer(version: int = 2, *, code: ErrorCode = ErrorCode.none, token: bytes = b"", session_ms: int = 0) -> Any:
    fields = {"error_code": code, "error_message": None, "auth_bytes": token, "session_lifetime": session_ms}
    return build(response_type(SASL_AUTHENTICATE, version), fields)


def test_a_session_is_renewed_between_85_and_95_percent_of_its_time() -> None:
    for spread, due_ms in ((0.0, 100_000 + 8_500), (1.0, 100_000 + 9_500)):
        authentication = made(spread=spread)
        assert authentication.begin()[:2] == (SASL_HANDSHAKE, 1)
        asked = authentication.on_answer(shaken(), 100_000)
        assert asked is not None
        assert asked[:2] == (SASL_AUTHENTICATE, 2)
        assert bytes(asked.message.auth_bytes) == b"\0alice\0wonder"
        assert authentication.is_under_way
        assert authentication.on_answer(answer(session_ms=10_000), 100_000) is None
        assert not authentication.is_under_way
        assert authentication.again_at_ms == due_ms
        authentication.begin()  # the same exchange once more, on the same connection
        authentication.on_answer(shaken(), due_ms)
        assert authentication.on_answer(answer(), due_ms) is None
        assert authentication.again_at_ms == NEVER_MS, "the broker ends no session any more"


def test_an_old_broker_tells_no_end_of_the_session() -> None:
    authentication = made({SASL_HANDSHAKE: (0, 1), SASL_AUTHENTICATE: (0, 0)})
    authentication.begin()
    asked = authentication.on_answer(shaken(), 0)
    assert asked is not None
    assert asked.version == 0
    assert authentication.on_answer(answer(0), 0) is None
    assert authentication.again_at_ms == NEVER_MS


@pytest.mark.parametrize("offered", [{}, {SASL_HANDSHAKE: (0, 0), SASL_AUTHENTICATE: (0, 2)}, {SASL_HANDSHAKE: (0, 1)}])
def test_a_broker_without_sasl_is_told_before_anything_is_asked(offered: dict[int, tuple[int, int]]) -> None:
    with pytest.raises(AuthenticationError, match="offers no SASL on this listener"):
        made(offered).begin()


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([shaken(ErrorCode.unsupported_sasl_mechanism, ("SCRAM-SHA-512",))], "offers SCRAM-SHA-512, and not PLAIN"),
        ([shaken(ErrorCode.illegal_sasl_state)], "ILLEGAL_SASL_STATE to the handshake"),
        ([shaken(), answer(code=ErrorCode.sasl_authentication_failed)], "SASL_AUTHENTICATION_FAILED: no further word"),
    ],
)
def test_a_refusal_is_told_in_the_brokers_words(answers: list[Any], words: str) -> None:
    authentication = made()
    authentication.begin()
    with pytest.raises(AuthenticationError, match=words):
        for each in answers:
            authentication.on_answer(each, 0)


def test_an_exchange_that_does_not_end_is_ended() -> None:
    class Endless:
        def first(self) -> bytes:
            return b"x"

        def answer(self, challenge: bytes) -> bytes | None:
            return b"x"

    authentication = made()
    authentication.begin()
    authentication.on_answer(shaken(), 0)
    authentication._client = Endless()
    with pytest.raises(AuthenticationError, match=f"no end after {TOKENS_MAX} tokens"):
        for _ in range(TOKENS_MAX + 1):
            authentication.on_answer(answer(), 0)
