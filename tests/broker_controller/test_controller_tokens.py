"""Delegation tokens at the controller: made, renewed, expired, removed, kept by its successor and in snapshots."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from broker.controller import delegation_tokens
from broker.controller.image import MetadataImage
from broker.controller.records import RemoveDelegationTokenRecord
from broker.controller.replay import replay
from broker.controller.snapshot import image_of, image_records
from broker.controller.token_types import (
    ChangedDelegationTokenResponse,
    CreateDelegationToken,
    CreateDelegationTokenResponse,
    ExpireDelegationToken,
    RemoveExpiredTokens,
    RemoveExpiredTokensResponse,
    RenewDelegationToken,
)
from broker.controller.types import WriteMetadata
from broker.security.delegation import DelegationToken, TokenKeys
from broker.wire.errors import ErrorCode

sys.path.insert(0, str(Path(__file__).parent))
from controller_world import ControllerWorld, cluster

KEY = "the cluster's"
NOW_MS = 1_700_000_000_000
MAX_MS, EXPIRY_MS = 10_000, 4_000


def world(**config: object) -> ControllerWorld:
    settings = {
        "delegation_token_secret_key": KEY,
        "delegation_token_max_lifetime_ms": MAX_MS,
        "delegation_token_expiry_time_ms": EXPIRY_MS,
    }
    return cluster(1, **{**settings, **config})


def create(of: ControllerWorld, **fields: Any) -> CreateDelegationTokenResponse:
    request = {"requester": "User:alice", "owner": "User:alice", "renewers": (), "max_lifetime_ms": -1, **fields}
    return of.ask(CreateDelegationTokenResponse, CreateDelegationToken(token=of.token(), wall_ms=NOW_MS, **request))


def renew(of: ControllerWorld, hmac: bytes, *, at_ms: int = NOW_MS, period_ms: int = -1, by: str = "alice") -> Any:
    request = RenewDelegationToken(
        token=of.token(), wall_ms=at_ms, requester=f"User:{by}", hmac=hmac, period_ms=period_ms
    )
    answer = of.ask(ChangedDelegationTokenResponse, request)
    return answer.error_code, answer.expires_ms


def expire(of: ControllerWorld, hmac: bytes, *, at_ms: int = NOW_MS, period_ms: int = -1, by: str = "alice") -> Any:
    request = ExpireDelegationToken(
        token=of.token(), wall_ms=at_ms, requester=f"User:{by}", hmac=hmac, period_ms=period_ms
    )
    answer = of.ask(ChangedDelegationTokenResponse, request)
    return answer.error_code, answer.expires_ms


def sweep(of: ControllerWorld, at_ms: int) -> int:
    return of.ask(RemoveExpiredTokensResponse, RemoveExpiredTokens(token=of.token(), wall_ms=at_ms)).count


def kept(of: ControllerWorld) -> dict[str, DelegationToken]:
    return dict(of.controller.image.delegation_tokens)


def test_a_token_is_kept_without_its_secret() -> None:
    of = world()
    made = create(of, requester="User:admin", renewers=("User:bob", "User:c:d"))
    assert made.error_code == ErrorCode.none
    assert made.hmac == TokenKeys(KEY).hmac_of(made.token_id)
    assert (made.issued_ms, made.expires_ms, made.ends_ms) == (NOW_MS, NOW_MS + EXPIRY_MS, NOW_MS + MAX_MS)
    assert kept(of) == {
        made.token_id: DelegationToken(
            token_id=made.token_id,
            owner="User:alice",
            requester="User:admin",
            renewers=("User:bob", "User:c:d"),
            issued_ms=NOW_MS,
            expires_ms=NOW_MS + EXPIRY_MS,
            ends_ms=NOW_MS + MAX_MS,
        )
    }
    written = b"".join(b"".join(action.values) for action in of.actions if isinstance(action, WriteMetadata))
    assert made.hmac.hex().encode() not in written
    assert made.hmac.hex() not in repr(made)


def test_ids_are_those_of_kafka_and_differ() -> None:
    of = world()
    ids = [create(of).token_id for _ in range(200)]
    assert len(set(ids)) == 200
    assert {len(each) for each in ids} == {22}
    assert not [each for each in ids if each.startswith("-")]


@pytest.mark.parametrize(
    ("wanted_ms", "expires_ms", "ends_ms"),
    [(0, EXPIRY_MS, MAX_MS), (1_000, 1_000, 1_000), (6_000, EXPIRY_MS, 6_000), (2**63, EXPIRY_MS, MAX_MS)],
)
def test_nobody_gets_a_longer_life_than_the_cluster_allows(wanted_ms: int, expires_ms: int, ends_ms: int) -> None:
    made = create(world(), max_lifetime_ms=wanted_ms)
    assert (made.expires_ms - NOW_MS, made.ends_ms - NOW_MS) == (expires_ms, ends_ms)


@pytest.mark.parametrize("who", [{"owner": "Group:g"}, {"renewers": ("User:a", "Group:g")}, {"owner": ":alice"}])
def test_only_users_own_and_renew(who: dict[str, object]) -> None:
    of = world()
    assert create(of, **who).error_code == ErrorCode.invalid_principal_type
    assert not kept(of)


def test_there_is_room_for_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "TOKENS_MAX", 2)
    of = world()
    codes = [create(of).error_code for _ in range(3)]
    assert codes == [ErrorCode.none, ErrorCode.none, ErrorCode.policy_violation]
    assert sweep(of, NOW_MS + EXPIRY_MS + 1) == 2
    assert create(of).error_code == ErrorCode.none
    assert create(world(), renewers=("User:" + "r" * 30_000,) * 3).error_code == ErrorCode.invalid_request


def test_without_a_key_there_are_no_tokens() -> None:
    of = world(delegation_token_secret_key="")
    disabled = ErrorCode.delegation_token_auth_disabled
    assert create(of).error_code == disabled
    assert (renew(of, b"x")[0], expire(of, b"x")[0]) == (disabled, disabled)


def test_a_token_is_renewed_up_to_its_maximum() -> None:
    of = world()
    hmac = create(of, renewers=("User:bob",)).hmac
    assert renew(of, hmac, at_ms=NOW_MS + 3_000) == (0, NOW_MS + 3_000 + EXPIRY_MS)
    assert renew(of, hmac, at_ms=NOW_MS + 3_000, period_ms=500, by="bob") == (0, NOW_MS + 3_500)
    assert renew(of, hmac, at_ms=NOW_MS + 3_100, period_ms=2**62) == (0, NOW_MS + 3_100 + EXPIRY_MS)
    assert renew(of, hmac, at_ms=NOW_MS + 7_000) == (0, NOW_MS + MAX_MS)
    assert [each.expires_ms for each in kept(of).values()] == [NOW_MS + MAX_MS]
    assert renew(of, hmac, at_ms=NOW_MS + MAX_MS + 1) == (ErrorCode.delegation_token_expired, 0)


def test_a_token_is_expired_now_or_later() -> None:
    of = world()
    hmac = create(of, renewers=("User:bob",)).hmac
    assert expire(of, hmac, period_ms=2**62) == (0, NOW_MS + MAX_MS)
    assert expire(of, hmac, period_ms=700, by="bob") == (0, NOW_MS + 700)
    assert expire(of, hmac, period_ms=0) == (0, NOW_MS)
    assert expire(of, hmac, at_ms=NOW_MS + 1, period_ms=5) == (ErrorCode.delegation_token_expired, 0)
    assert expire(of, hmac, at_ms=NOW_MS + 1, by="eve") == (ErrorCode.delegation_token_owner_mismatch, 0)
    assert renew(of, hmac, at_ms=NOW_MS + 1, by="eve") == (ErrorCode.delegation_token_expired, 0)
    other = create(of).hmac
    assert expire(of, other, period_ms=-7) == (0, NOW_MS)
    assert expire(of, other) == (ErrorCode.delegation_token_not_found, 0)
    assert len(kept(of)) == 1
    assert expire(of, hmac, at_ms=NOW_MS + 1, period_ms=-1) == (0, NOW_MS + 1)  # has expired, is not removed yet
    assert not kept(of)


@pytest.mark.parametrize("change", [renew, expire])
def test_others_may_not_change_it(change: Any) -> None:
    of = world()
    hmac = create(of, requester="User:admin", renewers=("User:bob",)).hmac
    before = kept(of)
    assert change(of, hmac, by="admin")[0] == ErrorCode.delegation_token_owner_mismatch
    assert change(of, hmac + b"x")[0] == ErrorCode.delegation_token_not_found
    assert kept(of) == before


def test_what_has_expired_is_removed_at_once_and_nothing_else() -> None:
    of = world()
    create(of, max_lifetime_ms=1_000)
    lasting = create(of).token_id
    assert sweep(of, NOW_MS + 1_000) == 0
    before = len(of.actions)
    assert sweep(of, NOW_MS + 1_001) == 1
    assert sum(isinstance(action, WriteMetadata) for action in of.actions[before:]) == 1
    assert kept(of).keys() == {lasting}


def test_snapshots_hold_tokens_and_a_successor_knows_them() -> None:
    of = world()
    hmac = create(of, renewers=("User:bob",)).hmac
    create(of)
    image = of.controller.image
    again = image_of(image_records(image), end_offset=image.offset + 1, epoch=image.epoch)
    assert again.delegation_tokens == image.delegation_tokens
    assert again == image
    successor = ControllerWorld(
        log=of.log, delegation_token_secret_key=KEY, delegation_token_expiry_time_ms=EXPIRY_MS,
        delegation_token_max_lifetime_ms=MAX_MS,
    )  # fmt: skip
    successor.commit()
    successor.epoch = of.epoch
    successor.lead()
    assert renew(successor, hmac, by="bob")[0] == ErrorCode.none


def test_what_was_not_committed_is_not_found() -> None:
    of = world()
    of.auto_commit = False
    request = CreateDelegationToken(
        token=of.token(), wall_ms=NOW_MS, requester="User:a", owner="User:a", renewers=(), max_lifetime_ms=-1
    )
    of.handle(request)
    assert request.token not in of.answers
    (token_id,) = of.controller._latest.delegation_tokens
    hmac = TokenKeys(KEY).hmac_of(token_id)
    of.lose()
    of.log = of.log[: of.committed]
    of.auto_commit = True
    of.lead()
    assert renew(of, hmac, by="a")[0] == ErrorCode.delegation_token_not_found


def test_an_image_without_such_a_token_cannot_lose_it() -> None:
    with pytest.raises(ValueError, match="no delegation token with id x"):
        replay(MetadataImage(), (RemoveDelegationTokenRecord(token_id="x"),), offset=0, epoch=1)
