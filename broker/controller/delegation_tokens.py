"""CreateDelegationToken, RenewDelegationToken and ExpireDelegationToken (KIP-48), and tokens that have expired. Pure.

The broker has already checked whether the requester may ask for a token of another owner. Who may renew or expire a
token is checked here, because only the token says it. Shown by tests/broker_controller/test_controller_tokens.py.
"""

from __future__ import annotations

import base64
import random
from dataclasses import replace
from typing import Final

from broker.controller.config import ControllerConfig
from broker.controller.image import MetadataImage
from broker.controller.outcome import Outcome
from broker.controller.records import RemoveDelegationTokenRecord
from broker.controller.snapshot import token_record
from broker.controller.token_types import (
    ChangedDelegationTokenResponse,
    CreateDelegationToken,
    CreateDelegationTokenResponse,
    ExpireDelegationToken,
    RemoveExpiredTokens,
    RemoveExpiredTokensResponse,
    RenewDelegationToken,
    TokenRequest,
)
from broker.security.delegation import USER_TYPE, DelegationToken, TokenKeys, principal_parts
from broker.wire.errors import ErrorCode

# Any authenticated user may ask for tokens of his own, and each token stays in the metadata of every node until it
# ends. Kafka has no limit. An answer that lists this many tokens blocks the event loop for a quarter of a second.
TOKENS_MAX: Final = 10_000
RENEWERS_BYTES_MAX: Final = 64 << 10  # for all names of one token, because each renewal writes them again


def decide_token(
    image: MetadataImage, request: TokenRequest, *, keys: TokenKeys, config: ControllerConfig, rng: random.Random
) -> Outcome:
    match request:
        case CreateDelegationToken():
            return _created(image, request, keys, config, rng)
        case RenewDelegationToken():
            return _renewed(image, request, keys, config)
        case ExpireDelegationToken():
            return _expired(image, request, keys)
        case RemoveExpiredTokens():
            return _swept(image, request)


def _created(
    image: MetadataImage,
    request: CreateDelegationToken,
    keys: TokenKeys,
    config: ControllerConfig,
    rng: random.Random,
) -> Outcome:
    problem = _creation_problem(image, request, keys)
    if problem is not None:
        return Outcome(response=CreateDelegationTokenResponse(error_code=problem))
    lifetime_ms = config.delegation_token_max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    ends_ms = request.wall_ms + lifetime_ms
    token = DelegationToken(
        token_id=_new_id(rng),
        owner=request.owner,
        requester=request.requester,
        renewers=request.renewers,
        issued_ms=request.wall_ms,
        expires_ms=min(ends_ms, request.wall_ms + config.delegation_token_expiry_time_ms),
        ends_ms=ends_ms,
    )
    response = CreateDelegationTokenResponse(
        error_code=ErrorCode.none,
        token_id=token.token_id,
        hmac=keys.hmac_of(token.token_id),
        issued_ms=token.issued_ms,
        expires_ms=token.expires_ms,
        ends_ms=token.ends_ms,
    )
    return Outcome(response=response, records=(token_record(token),))


def _creation_problem(image: MetadataImage, request: CreateDelegationToken, keys: TokenKeys) -> ErrorCode | None:
    if not keys.is_enabled:
        return ErrorCode.delegation_token_auth_disabled
    if any(principal_parts(each)[0] != USER_TYPE for each in (request.owner, *request.renewers)):
        return ErrorCode.invalid_principal_type
    if sum(len(each.encode()) for each in request.renewers) > RENEWERS_BYTES_MAX:
        return ErrorCode.invalid_request
    if len(image.delegation_tokens) >= TOKENS_MAX:
        return ErrorCode.policy_violation
    return None


def _new_id(rng: random.Random) -> str:
    """16 bytes in 22 characters, like Kafka's ids. It does not begin with -, because a command line would take that for
    an option."""
    while True:
        made = base64.urlsafe_b64encode(rng.getrandbits(128).to_bytes(16, "big")).decode().rstrip("=")
        if not made.startswith("-"):
            return made


def _renewed(image: MetadataImage, request: RenewDelegationToken, keys: TokenKeys, config: ControllerConfig) -> Outcome:
    found = _found(image, request, keys)
    if isinstance(found, DelegationToken) and found.is_expired(request.wall_ms):
        found = ErrorCode.delegation_token_expired
    elif isinstance(found, DelegationToken) and not found.may_be_changed_by(request.requester):
        found = ErrorCode.delegation_token_owner_mismatch
    if isinstance(found, ErrorCode):
        return Outcome(response=ChangedDelegationTokenResponse(error_code=found))
    period_ms = config.delegation_token_expiry_time_ms
    if request.period_ms > 0:
        period_ms = min(period_ms, request.period_ms)
    return _moved(found, min(found.ends_ms, request.wall_ms + period_ms))


def _expired(image: MetadataImage, request: ExpireDelegationToken, keys: TokenKeys) -> Outcome:
    """The permission is checked before the token's times. Kafka has this order here, and the other one in a renewal."""
    found = _found(image, request, keys)
    if isinstance(found, DelegationToken) and not found.may_be_changed_by(request.requester):
        found = ErrorCode.delegation_token_owner_mismatch
    if isinstance(found, ErrorCode):
        return Outcome(response=ChangedDelegationTokenResponse(error_code=found))
    if request.period_ms < 0:  # also for a token that has expired
        return Outcome(
            response=ChangedDelegationTokenResponse(error_code=ErrorCode.none, expires_ms=request.wall_ms),
            records=(RemoveDelegationTokenRecord(token_id=found.token_id),),
        )
    if found.is_expired(request.wall_ms):
        return Outcome(response=ChangedDelegationTokenResponse(error_code=ErrorCode.delegation_token_expired))
    return _moved(found, min(found.ends_ms, request.wall_ms + request.period_ms))


def _found(
    image: MetadataImage, request: RenewDelegationToken | ExpireDelegationToken, keys: TokenKeys
) -> DelegationToken | ErrorCode:
    if not keys.is_enabled:
        return ErrorCode.delegation_token_auth_disabled
    return keys.find(image.delegation_tokens, request.hmac) or ErrorCode.delegation_token_not_found


def _moved(token: DelegationToken, expires_ms: int) -> Outcome:
    return Outcome(
        response=ChangedDelegationTokenResponse(error_code=ErrorCode.none, expires_ms=expires_ms),
        records=(token_record(replace(token, expires_ms=expires_ms)),),
    )


def _swept(image: MetadataImage, request: RemoveExpiredTokens) -> Outcome:
    gone = [each.token_id for each in image.delegation_tokens.values() if each.is_expired(request.wall_ms)]
    return Outcome(
        response=RemoveExpiredTokensResponse(error_code=ErrorCode.none, count=len(gone)),
        records=tuple(RemoveDelegationTokenRecord(token_id=each) for each in gone),
    )
