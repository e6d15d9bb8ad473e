"""SASL listeners of a real broker, in bytes: each mechanism, what is refused, sessions that end, hostile bytes."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from security_helper import USERS, SecuredCluster, Wire, dial

from broker.security.sasl_client import Plain, Scram
from broker.security.scram import HASHES
from broker.wire.apis import ApiKey
from broker.wire.codec import encode_request
from broker.wire.errors import ErrorCode
from broker.wire.messages import request as make_request
from tests.patience import wait_until

pytestmark = pytest.mark.slow
SESSION = timedelta(milliseconds=1_500)  # of mechanism SCRAM-SHA-512 on SASL_PLAINTEXT


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    settings = {
        "listener.name.sasl_plaintext.scram-sha-512.connections.max.reauth.ms": 1_500,
        "connection.failed.authentication.delay.ms": 300,
    }
    with SecuredCluster(tmp_path_factory.mktemp("sasl"), settings=settings) as running:
        running.make_scram_users()
        yield running


def dialled(cluster: SecuredCluster, listener: str = "SASL_PLAINTEXT") -> Wire:
    return dial(cluster.ports[1][listener], cluster.client_context() if listener.endswith("SSL") else None)


def is_served(wire: Wire) -> bool:
    return len(wire.ask(ApiKey.METADATA, 12, topics=[], allow_auto_topic_creation=False).brokers) == 1


def shake_hands(wire: Wire, mechanism: str, version: int = 1) -> int:
    return int(wire.ask(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism).error_code)


def authenticate(wire: Wire, token: bytes, version: int = 2) -> Any:
    return wire.ask(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=token)


def login(wire: Wire, mechanism: str, user: str = "alice", password: str | None = None, version: int = 2) -> Any:
    """The last answer."""
    assert shake_hands(wire, mechanism) == 0
    word = USERS[user] if password is None else password
    client: Plain | Scram = Plain(username=user, password=word)
    if mechanism in HASHES:
        client = Scram(hash_name=HASHES[mechanism], username=user, password=word, nonce="abc")
    token: bytes | None = client.first()
    while token is not None:
        answer = authenticate(wire, token, version)
        if answer.error_code != ErrorCode.none:
            return answer
        token = client.answer(answer.auth_bytes)
    return answer


def bearer(**claims: object) -> bytes:
    def part(fields: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()

    token = f"{part({'alg': 'none'})}.{part({'sub': 'alice', 'exp': int(time.time()) + 600, **claims})}."
    return f"n,,\1auth=Bearer {token}\1\1".encode()


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", ["PLAIN", *HASHES])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_who_knows_the_password_is_served(cluster: SecuredCluster, listener: str, mechanism: str, version: int) -> None:
    wire = dialled(cluster, listener)
    keys = {
        each.api_key
        for each in wire.ask(ApiKey.API_VERSIONS, 3, client_software_name="a", client_software_version="1").api_keys
    }
    assert {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} <= keys
    assert login(wire, mechanism, version=version).error_code == ErrorCode.none
    assert is_served(wire)
    wire.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", *HASHES])
def test_who_does_not_is_told_after_a_while_and_disconnected(cluster: SecuredCluster, mechanism: str) -> None:
    wire = dialled(cluster)
    began = time.monotonic()
    answer = login(wire, mechanism, password="wrong")
    assert answer.error_code == ErrorCode.sasl_authentication_failed
    assert "nvalid" in answer.error_message
    assert "alice" not in answer.error_message
    assert time.monotonic() - began >= 0.3
    assert wire.is_closed_by_the_broker()
    wait_until(lambda: "authentication_failed" in cluster.stderr(1), "a line in the log")
    assert "wrong" not in cluster.stderr(1)


def test_bare_tokens_after_handshake_version_0(cluster: SecuredCluster) -> None:
    wire = dialled(cluster)
    assert shake_hands(wire, "SCRAM-SHA-256", version=0) == 0
    client = Scram(hash_name="sha256", username="alice", password=USERS["alice"], nonce="abc")
    wire.send_frame(client.first())
    final = client.answer(wire.frame())
    assert final is not None
    wire.send_frame(final)
    assert client.answer(wire.frame()) is None
    assert is_served(wire)
    wire.close()
    refused = dialled(cluster)
    assert shake_hands(refused, "PLAIN", version=0) == 0
    refused.send_frame(b"\0alice\0wrong")
    assert refused.is_closed_by_the_broker()


def test_a_mechanism_that_is_not_there(cluster: SecuredCluster) -> None:
    wire = dialled(cluster)
    answer = wire.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="GSSAPI")
    assert answer.error_code == ErrorCode.unsupported_sasl_mechanism
    assert list(answer.mechanisms) == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
    assert wire.is_closed_by_the_broker()


def test_another_handshake_in_the_middle_is_out_of_place(cluster: SecuredCluster) -> None:
    wire = dialled(cluster)
    assert shake_hands(wire, "PLAIN") == 0
    assert shake_hands(wire, "PLAIN") == ErrorCode.illegal_sasl_state
    assert wire.is_closed_by_the_broker()


def test_sasl_has_no_place_where_nobody_is_asked(cluster: SecuredCluster) -> None:
    wire = dialled(cluster, "DIRECT")
    assert shake_hands(wire, "PLAIN") == ErrorCode.illegal_sasl_state
    assert authenticate(wire, b"\0alice\0x").error_code == ErrorCode.illegal_sasl_state
    assert is_served(wire)
    wire.close()


@pytest.mark.parametrize("after_handshake", [False, True])
def test_nothing_else_is_answered_before(cluster: SecuredCluster, after_handshake: bool) -> None:
    wire = dialled(cluster)
    if after_handshake:
        assert shake_hands(wire, "PLAIN") == 0
    with pytest.raises(OSError):
        is_served(wire)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.0\r\n\r\n",
        b"\0\0\0\4abcd",
        b"\x7f\xff\xff\xff",
        b"\0\x08\0\1" + b"x" * 100,
        b"\xff\xff\xff\xff",
        os.urandom(500),
    ],
    ids=["http", "no-request", "huge", "above-the-limit", "negative", "random"],
)
@pytest.mark.parametrize("stage", ["first", "after the handshake", "in bare tokens"])
def test_garbage_at_each_stage_costs_nobody_else(cluster: SecuredCluster, data: bytes, stage: str) -> None:
    other = dialled(cluster)
    assert login(other, "PLAIN").error_code == ErrorCode.none
    wire = dialled(cluster)
    if stage != "first":
        assert shake_hands(wire, "SCRAM-SHA-256", version=1 if stage == "after the handshake" else 0) == 0
    wire.socket.sendall(data)
    assert is_served(other)
    other.close()
    wire.close()


def test_a_request_above_the_limit_of_this_stage_is_not_even_read(cluster: SecuredCluster) -> None:
    wire = dialled(cluster)
    wire.socket.sendall((512 * 1024 + 1).to_bytes(4, "big"))
    assert wire.is_closed_by_the_broker()
    known = dialled(cluster)
    assert login(known, "PLAIN").error_code == ErrorCode.none
    big = make_request(ApiKey.METADATA, 12, topics=[], allow_auto_topic_creation=False)
    frame = b"".join(encode_request(ApiKey.METADATA, 12, 1, "x" * 600, big))
    assert known.socket.send(frame) == len(frame)
    known.frame()
    known.close()


def test_clients_that_stop_halfway_keep_nobody_out(cluster: SecuredCluster) -> None:
    halfway = [dialled(cluster) for _ in range(200)]
    for number, wire in enumerate(halfway):
        if number % 2:
            assert shake_hands(wire, "SCRAM-SHA-256") == 0
        wire.socket.sendall(b"\0\0")
    wire = dialled(cluster)
    assert login(wire, "SCRAM-SHA-256").error_code == ErrorCode.none
    assert is_served(wire)
    for each in (*halfway, wire):
        each.close()


def test_a_session_ends_unless_the_client_proves_again_who_it_is(cluster: SecuredCluster) -> None:
    silent = dialled(cluster)
    assert login(silent, "SCRAM-SHA-512").session_lifetime == SESSION
    wait_until(lambda: _lives_on(cluster), "a client that was never late")
    assert login_ends(silent)


def _lives_on(cluster: SecuredCluster) -> bool:
    """Proves itself again and again for two sessions. False if a busy host made it too late, which ends its session."""
    wire = dialled(cluster)
    began = time.monotonic()
    while time.monotonic() - began < 2 * SESSION.total_seconds():
        proof_s = time.monotonic()
        answer = login(wire, "SCRAM-SHA-512")
        assert (answer.error_code, answer.session_lifetime) == (ErrorCode.none, SESSION)
        if login_ends(wire):
            assert time.monotonic() - proof_s > SESSION.total_seconds()
            return False
        time.sleep(1.1)  # the broker takes one handshake a second
    wire.close()
    return True


def login_ends(wire: Wire) -> bool:
    try:
        is_served(wire)
    except OSError:
        return True
    return False


def test_nobody_becomes_somebody_else(cluster: SecuredCluster) -> None:
    wire = dialled(cluster)
    assert login(wire, "PLAIN", "alice").error_code == ErrorCode.none
    answer = login(wire, "PLAIN", "bob")
    assert answer.error_code == ErrorCode.sasl_authentication_failed
    assert "Cannot change principals" in answer.error_message
    assert wire.is_closed_by_the_broker()
    wire = dialled(cluster)
    assert login(wire, "PLAIN", "alice").error_code == ErrorCode.none
    answer = login(wire, "SCRAM-SHA-256", "alice")
    assert "not supported for re-authentication of mechanism 'PLAIN'" in answer.error_message
    assert wire.is_closed_by_the_broker()


def test_a_second_handshake_within_a_second_is_out_of_place(cluster: SecuredCluster) -> None:
    def is_refused() -> bool:
        """False if a busy host let the second pass."""
        wire = dialled(cluster)
        assert login(wire, "PLAIN").error_code == ErrorCode.none
        began = time.monotonic()
        assert login(wire, "PLAIN").error_code == ErrorCode.none
        error = shake_hands(wire, "PLAIN")
        if error == ErrorCode.none:
            assert time.monotonic() - began >= 1
            wire.close()
            return False
        assert error == ErrorCode.illegal_sasl_state
        assert is_served(wire), "it stays who it was"
        wire.close()
        return True

    wait_until(is_refused, "two handshakes within a second")


def test_a_token_is_a_proof_until_it_expires(cluster: SecuredCluster) -> None:
    wire = dialled(cluster)
    assert shake_hands(wire, "OAUTHBEARER") == 0
    answer = authenticate(wire, bearer(exp=int(time.time()) + 600))
    assert answer.error_code == ErrorCode.none
    assert 500 < answer.session_lifetime.total_seconds() <= 600
    assert is_served(wire)
    wire.close()
    late = dialled(cluster)
    assert shake_hands(late, "OAUTHBEARER") == 0
    challenge = authenticate(late, bearer(exp=1))
    assert json.loads(challenge.auth_bytes) == {"status": "invalid_token"}
    assert authenticate(late, b"\1").error_code == ErrorCode.sasl_authentication_failed
    assert late.is_closed_by_the_broker()
