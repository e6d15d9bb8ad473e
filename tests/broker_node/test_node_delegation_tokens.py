"""Delegation tokens (KIP-48, KIP-373) on three real brokers with access control lists.

They are made at any broker and known at all of them. What may their holders do, and who may ask for them?
"""

from __future__ import annotations

import base64
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
from security_helper import USERS, SecuredCluster, Wire, dial
from wire_helper import ask

from broker.client import Admin, KafkaError
from broker.client.admin_tokens import DelegationToken
from broker.security.sasl_client import HASHES, Credentials, SaslError, sasl_client
from broker.sim.fuzz_input import damage, valid_frame
from broker.wire.apis import APIS, ApiKey
from broker.wire.codec import encode_request
from broker.wire.errors import ErrorCode
from broker.wire.messages import request as make_request
from broker.wire.principals import encode_principal
from tests.patience import wait_until

pytestmark = pytest.mark.slow
KEY = "a key that all brokers share"
SWEEP_MS = 300
FUZZED = 1_500  # requests
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    "delegation.token.secret.key": KEY,
    "delegation.token.max.lifetime.ms": 100_000_000,
    "delegation.token.expiry.time.ms": 50_000_000,
    "delegation.token.expiry.check.interval.ms": SWEEP_MS,
}
NOT_ALLOWED = ErrorCode.delegation_token_request_not_allowed
USER_RESOURCE, TOKEN_RESOURCE, DESCRIBE, CREATE_TOKENS, DESCRIBE_TOKENS = 7, 6, 8, 13, 14


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with SecuredCluster(tmp_path_factory.mktemp("tokens"), brokers=3, settings=SETTINGS) as running:
        running.wait_until_all_are_known()
        running.make_scram_users()
        yield running


def admin_of(cluster: SecuredCluster, user: str, *, token: DelegationToken | None = None, broker: int = 1) -> Admin:
    plain = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{user}" '
    return Admin(
        {
            "bootstrap.servers": f"127.0.0.1:{cluster.ports[broker]['SASL_PLAINTEXT']}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN" if token is None else "SCRAM-SHA-256",
            "sasl.jaas.config": f'{plain}password="{USERS[user]}";' if token is None else token.jaas_config,
            "default.api.timeout.ms": 60_000,
        }
    )


def prove(wire: Wire, credentials: Credentials) -> Any:
    """The last answer of an exchange."""
    assert wire.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism=credentials.mechanism).error_code is ErrorCode.none
    client = sasl_client(credentials, nonce="abc")
    sent: bytes | None = client.first()
    while sent is not None:
        answer = wire.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=sent)
        if answer.error_code is not ErrorCode.none:
            return answer
        sent = client.answer(answer.auth_bytes)
    return answer


def as_user(cluster: SecuredCluster, user: str, broker: int = 1) -> Wire:
    wire = dial(cluster.ports[broker]["SASL_PLAINTEXT"])
    answer = prove(wire, Credentials(mechanism="PLAIN", username=user, password=USERS[user]))
    assert answer.error_code is ErrorCode.none
    return wire


def holder(token: DelegationToken, mechanism: str = "SCRAM-SHA-256") -> Credentials:
    password = base64.b64encode(token.hmac).decode()
    return Credentials(mechanism=mechanism, username=token.token_id, password=password, is_delegated=True)


def enter(cluster: SecuredCluster, token: DelegationToken, broker: int = 1, mechanism: str = "SCRAM-SHA-256") -> Any:
    """(connection, last answer) once this broker knows the token."""
    return wait_until(lambda: try_to_enter(cluster, token, broker, mechanism), "the token lets its holder in")


def try_to_enter(
    cluster: SecuredCluster, token: DelegationToken, broker: int, mechanism: str = "SCRAM-SHA-256"
) -> tuple[Wire, Any] | None:
    wire = dial(cluster.ports[broker]["SASL_PLAINTEXT"])
    answer = prove(wire, holder(token, mechanism))
    if answer.error_code is ErrorCode.none:
        return wire, answer
    wire.close()
    return None


def allow(cluster: SecuredCluster, user: str, kind: int, name: str, operation: int) -> None:
    rule = {"resource_type": kind, "resource_name": name, "resource_pattern_type": 3, "principal": f"User:{user}",
            "host": "*", "operation": operation, "permission_type": 3}  # fmt: skip
    (made,) = ask(cluster.ports[1]["DIRECT"], ApiKey.CREATE_ACLS, 3, creations=[rule]).results
    assert made.error_code is ErrorCode.none


def error_of(call: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call()
    return ErrorCode(caught.value.code)


@pytest.mark.parametrize("broker", [1, 2, 3])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_token_of_any_broker_and_version_lets_its_owner_in_everywhere(
    cluster: SecuredCluster, broker: int, version: int
) -> None:
    wire = as_user(cluster, "alice", broker)
    renewers = [{"principal_type": "User", "principal_name": "bob"}]

    def created() -> Any:
        """None while the host is so busy that the quorum has no leader."""
        answer = wire.ask(ApiKey.CREATE_DELEGATION_TOKEN, version, renewers=renewers, max_lifetime=60_000)
        return None if answer.error_code is ErrorCode.request_timed_out else answer

    made = wait_until(created, "a controller")
    assert made.error_code is ErrorCode.none
    assert (made.principal_type, made.principal_name) == ("User", "alice")
    assert (made.max_timestamp - made.issue_timestamp).total_seconds() == 60
    (told,) = [
        each
        for each in wire.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, version, owners=None).tokens
        if each.token_id == made.token_id
    ]  # at once, where it was made
    assert (told.principal_name, told.hmac, [each.principal_name for each in told.renewers]) == (
        "alice",
        made.hmac,
        ["bob"],
    )
    token = DelegationToken(
        token_id=made.token_id, hmac=made.hmac, owner="", requester="", issued_ms=0, expires_ms=0, ends_ms=0
    )
    for other, mechanism in zip(cluster.ids, [*HASHES, "SCRAM-SHA-256"], strict=True):
        inside, answer = enter(cluster, token, other, mechanism)
        assert 0 < answer.session_lifetime.total_seconds() <= 60
        inside.close()
    wire.close()


def test_the_reference_client_makes_renews_tells_and_ends_tokens(cluster: SecuredCluster) -> None:
    with admin_of(cluster, "alice") as alice, admin_of(cluster, "bob", broker=2) as bob:
        token = alice.tokens.create(renewers=["User:bob"], max_lifetime_ms=90_000_000)
        assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:alice", ("User:bob",))
        assert (token.expires_ms - token.issued_ms, token.ends_ms - token.issued_ms) == (50_000_000, 90_000_000)
        renewed_ms = bob.tokens.renew(token.hmac, period_ms=20_000_000)
        assert renewed_ms < token.expires_ms
        wait_until(lambda: _expiry(bob, token) == renewed_ms, "the other broker knows")
        assert token.token_id in {each.token_id for each in bob.tokens.describe(["User:bob"])}
        assert bob.tokens.describe(["User:nobody"]) == bob.tokens.describe([]) == []
        with admin_of(cluster, "alice", token=token, broker=3) as inside:
            assert inside.describe_cluster().brokers
            assert error_of(inside.tokens.create) is NOT_ALLOWED
            assert error_of(inside.tokens.describe) is NOT_ALLOWED
            assert error_of(lambda: inside.tokens.renew(token.hmac)) is NOT_ALLOWED
            assert error_of(lambda: inside.tokens.expire(token.hmac)) is NOT_ALLOWED
        assert token.issued_ms <= alice.tokens.expire(token.hmac) < token.expires_ms
        assert error_of(lambda: alice.tokens.expire(token.hmac)) is ErrorCode.delegation_token_not_found
    for broker in cluster.ids:
        wait_until(lambda broker=broker: is_refused(cluster, token, broker), "nobody gets in by it any more")


def _expiry(admin: Admin, token: DelegationToken) -> int | None:
    return next((each.expires_ms for each in admin.tokens.describe() if each.token_id == token.token_id), None)


def is_refused(cluster: SecuredCluster, token: DelegationToken, broker: int = 1) -> bool:
    wire = dial(cluster.ports[broker]["SASL_PLAINTEXT"])
    try:
        answer = prove(wire, holder(token))
    except SaslError:
        return True
    finally:
        wire.close()
    return answer.error_code is ErrorCode.sasl_authentication_failed


def test_who_is_not_known_gets_no_token(cluster: SecuredCluster) -> None:
    named = {"renewers": [], "max_lifetime": -1}
    anonymous = dial(cluster.ports[1]["SSL"], cluster.client_context())
    for wire in (dial(cluster.ports[1]["DIRECT"]), anonymous):
        refused = wire.ask(ApiKey.CREATE_DELEGATION_TOKEN, 3, **named)
        assert (refused.error_code, refused.max_timestamp) == (NOT_ALLOWED, None)
        assert (refused.principal_name, refused.token_requester_principal_name) == ("ANONYMOUS", "ANONYMOUS")
        assert wire.ask(ApiKey.RENEW_DELEGATION_TOKEN, 2, hmac=b"x", renew_period=1).error_code is NOT_ALLOWED
        assert wire.ask(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, hmac=b"x", expiry_time_period=1).error_code is NOT_ALLOWED
        assert wire.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, owners=None).error_code is NOT_ALLOWED
        wire.close()
    with_certificate = dial(cluster.ports[2]["MTLS"], cluster.client_context(with_certificate=True))
    made = with_certificate.ask(ApiKey.CREATE_DELEGATION_TOKEN, 3, **named)
    assert (made.error_code, made.principal_name) == (ErrorCode.none, "alice")
    with_certificate.close()


def test_a_token_for_somebody_else_needs_a_right(cluster: SecuredCluster) -> None:
    with admin_of(cluster, "bob") as bob, admin_of(cluster, "admin", broker=2) as admin:
        refused = ErrorCode.delegation_token_authorization_failed
        assert error_of(lambda: bob.tokens.create(owner="User:carol")) is refused
        assert bob.tokens.create(owner="User:bob").requester == "User:bob"
        assert admin.tokens.create(owner="User:carol").owner == "User:carol"
        allow(cluster, "bob", USER_RESOURCE, "User:carol", CREATE_TOKENS)
        token = wait_until(lambda: _made_for(bob, "User:carol"), "bob may")
        assert (token.owner, token.requester) == ("User:carol", "User:bob")
        assert error_of(lambda: bob.tokens.renew(token.hmac)) is ErrorCode.delegation_token_owner_mismatch
        wire, _ = enter(cluster, token, 3)
        assert wire.ask(ApiKey.CREATE_DELEGATION_TOKEN, 3, renewers=[], max_lifetime=-1).principal_name == "carol"
        wire.close()
        assert error_of(lambda: bob.tokens.create(renewers=["Group:g"])) is ErrorCode.invalid_principal_type
        assert error_of(lambda: admin.tokens.create(owner="Group:g")) is ErrorCode.invalid_principal_type


def _made_for(admin: Admin, owner: str) -> DelegationToken | None:
    try:
        return admin.tokens.create(owner=owner)
    except KafkaError:
        return None


def test_tokens_are_told_to_those_who_may_know(cluster: SecuredCluster) -> None:
    with admin_of(cluster, "alice") as alice, admin_of(cluster, "bob") as bob, admin_of(cluster, "admin") as admin:
        first, second = alice.tokens.create(), alice.tokens.create()
        assert {first.token_id, second.token_id} <= {each.token_id for each in admin.tokens.describe(["User:alice"])}
        assert _told_of(bob, "User:alice") == set()
        allow(cluster, "bob", TOKEN_RESOURCE, first.token_id, DESCRIBE)
        wait_until(lambda: _told_of(bob, "User:alice") == {first.token_id}, "of that one")
        allow(cluster, "bob", USER_RESOURCE, "User:alice", DESCRIBE_TOKENS)
        wait_until(lambda: _told_of(bob, "User:alice") >= {first.token_id, second.token_id}, "of all of hers")


def _told_of(admin: Admin, owner: str) -> set[str]:
    return {each.token_id for each in admin.tokens.describe([owner]) if "User:bob" not in each.renewers}


def test_a_session_ends_with_its_token_and_the_token_is_removed(cluster: SecuredCluster) -> None:
    with admin_of(cluster, "alice") as alice:

        def entered() -> Any:
            """None if its time was over before the broker let it in, as a busy host may have it."""
            made = alice.tokens.create(max_lifetime_ms=4_000)
            until_s = time.monotonic() + 4
            while time.monotonic() < until_s:
                if (found := try_to_enter(cluster, made, 2)) is not None:
                    return made, *found
            return None

        token, wire, answer = wait_until(entered, "a token lets its holder in")
        lifetime_s = answer.session_lifetime.total_seconds()
        assert 0 < lifetime_s <= 4
        until_s = time.monotonic() + 60

        def is_over() -> bool:
            try:
                wire.ask(ApiKey.METADATA, 12, topics=[], allow_auto_topic_creation=False)
            except OSError:
                return True
            return False

        wait_until(is_over, "the broker closes the connection")
        assert time.monotonic() < until_s
        assert is_refused(cluster, token, 2)
        wait_until(lambda: _expiry(alice, token) is None, "the controller removes it")
        wire.close()


def test_a_password_may_prove_it_again_and_then_tokens_may_be_asked_for(cluster: SecuredCluster) -> None:
    """As in Kafka: what counts is what proved the user last."""
    with admin_of(cluster, "alice") as alice:
        token = alice.tokens.create()
    wire, _ = enter(cluster, token)
    named = {"renewers": [], "max_lifetime": -1}
    assert wire.ask(ApiKey.CREATE_DELEGATION_TOKEN, 3, **named).error_code is NOT_ALLOWED
    password = Credentials(mechanism="SCRAM-SHA-256", username="alice", password=USERS["alice"])
    assert prove(wire, password).error_code is ErrorCode.none
    assert wire.ask(ApiKey.CREATE_DELEGATION_TOKEN, 3, **named).error_code is ErrorCode.none
    wire.close()


def test_the_largest_times_are_as_long_as_is_allowed(cluster: SecuredCluster) -> None:
    with admin_of(cluster, "alice") as alice:
        token = alice.tokens.create(max_lifetime_ms=2**63 - 1)
        assert token.ends_ms - token.issued_ms == 100_000_000
        assert alice.tokens.renew(token.hmac, period_ms=2**63 - 1) >= token.expires_ms
        assert alice.tokens.expire(token.hmac, period_ms=2**63 - 1) == token.ends_ms
        assert alice.tokens.expire(token.hmac, period_ms=-(2**63)) < token.ends_ms


@pytest.mark.long
def test_tokens_outlive_all_brokers(cluster: SecuredCluster) -> None:
    with admin_of(cluster, "alice") as alice:
        token = alice.tokens.create()
    for broker in cluster.ids:
        cluster.kill(broker)
    for broker in cluster.ids:
        cluster.start(broker)
    cluster.wait_until_all_are_known()
    for broker in cluster.ids:
        wire, _ = enter(cluster, token, broker)
        wire.close()
    for broker in cluster.ids:
        stored = b"".join(each.read_bytes() for each in cluster.log_dir(broker).rglob("*") if each.is_file())
        assert token.hmac not in stored
        assert token.hmac.hex().encode() not in stored
        assert token.token_id.encode() in stored
        assert KEY not in cluster.stderr(broker)


def envelope(request: bytes, principal: bytes | None) -> dict[str, object]:
    return {"request_data": request, "request_principal": principal, "client_host_address": b"\x7f\0\0\1"}


def test_an_envelope_is_opened_for_these_requests_only(cluster: SecuredCluster) -> None:
    """On the controllers' listener, which only brokers use (User:ANONYMOUS, who may act for the cluster here)."""

    def frame(key: ApiKey, version: int, **fields: object) -> bytes:
        return b"".join(encode_request(key, version, 7, "x", make_request(key, version, **fields)))[4:]

    wire = dial(cluster.ports[1]["CONTROLLER"])
    alice = encode_principal("User", "alice", is_by_token=False)
    renewal = frame(ApiKey.RENEW_DELEGATION_TOKEN, 2, hmac=b"x", renew_period=1)
    cases = [
        (renewal, None, ErrorCode.principal_deserialization_failure),
        (renewal, alice[:-1], ErrorCode.principal_deserialization_failure),
        (b"", alice, ErrorCode.invalid_request),
        (renewal[:-9], alice, ErrorCode.invalid_request),
        (renewal[:2] + b"\0\x63" + renewal[4:], alice, ErrorCode.unsupported_version),
        (frame(ApiKey.METADATA, 12, topics=[]), alice, ErrorCode.invalid_request),
    ]
    for data, principal, expected in cases:
        answer = wire.ask(ApiKey.ENVELOPE, 0, **envelope(data, principal))
        assert (answer.error_code, answer.response_data) == (expected, None)
    answers = [
        wire.ask(ApiKey.ENVELOPE, 0, **envelope(renewal, who))
        for who in (alice, encode_principal("User", "alice", is_by_token=True))
    ]
    wire.close()
    assert answers[1].error_code is ErrorCode.none
    assert answers[1].response_data[:4] == (7).to_bytes(4, "big")
    assert answers[1].response_data[5:7] == int(NOT_ALLOWED).to_bytes(2, "big")
    assert answers[0].error_code in (ErrorCode.none, ErrorCode.not_controller)


TOKEN_APIS = (
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
)


def test_no_request_of_a_known_user_and_no_envelope_harms_a_broker(cluster: SecuredCluster) -> None:
    """The fuzzer of all APIs comes without a name, so it is refused at once. These come as admin, and in envelopes."""
    rng = random.Random(38)

    def drawn(key: ApiKey) -> bytes:
        api = APIS[key]
        while (frame := valid_frame(api, rng.randint(api.min_version, api.max_version), rng)) is None:
            pass
        return frame[4:]

    wire, outer = as_user(cluster, "admin", 2), dial(cluster.ports[1]["CONTROLLER"])
    answered = 0
    for _ in range(FUZZED):
        data = drawn(rng.choice(TOKEN_APIS))
        if rng.random() < 0.5:
            who = encode_principal("User", rng.choice(("admin", "ä" * 9_000)), is_by_token=False)
            if rng.random() < 0.3:
                data, who = bytes(damage(bytearray(data), rng)), bytes(damage(bytearray(who), rng))
            outer.ask(ApiKey.ENVELOPE, 0, **envelope(data, who))
            continue
        wire.send_frame(data)
        try:
            wire.frame()
            answered += 1
        except OSError:  # more elements than may be, a text that is none
            wire.close()
            wire = as_user(cluster, "admin", 2)
    assert answered > FUZZED // 4
    for broker in cluster.ids:
        assert "handler_failed" not in cluster.stderr(broker)
    wire.close()
    outer.close()


def test_without_a_key_tokens_are_disabled(tmp_path_factory: pytest.TempPathFactory) -> None:
    disabled = ErrorCode.delegation_token_auth_disabled
    with SecuredCluster(tmp_path_factory.mktemp("none"), brokers=1) as running:
        running.wait_until_all_are_known()
        with admin_of(running, "alice") as alice:
            for call in (
                alice.tokens.create,
                alice.tokens.describe,
                lambda: alice.tokens.renew(b"x"),
                lambda: alice.tokens.expire(b"x"),
            ):
                assert error_of(call) is disabled
