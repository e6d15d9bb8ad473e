"""A user's SCRAM password, set by AlterUserScramCredentials (KIP-554). The broker never sees the password itself."""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, Final

from broker.client.question import Question, raise_error
from broker.security.sasl_client import HASHES
from broker.wire.apis import ApiKey
from broker.wire.messages import request

if TYPE_CHECKING:
    from broker.wire.shapes.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
        ScramCredentialUpsertionFields,
    )

ITERATIONS: Final = 4096  # the minimum of Kafka and the default of its tools: each login costs some milliseconds
_SALT_BYTES: Final = 24
_NUMBERS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}


def scram_user(name: str, mechanism: str, password: str) -> Question[None]:
    """Creates the user's credentials, or gives the user a new password. `mechanism` is SCRAM-SHA-256 or
    SCRAM-SHA-512."""
    salt = secrets.token_bytes(_SALT_BYTES)
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, ITERATIONS)

    def build(version: int) -> AlterUserScramCredentialsRequest:
        upsertion: ScramCredentialUpsertionFields = {
            "name": name,
            "mechanism": _NUMBERS[mechanism],
            "iterations": ITERATIONS,
            "salt": salt,
            "salted_password": salted,
        }
        return request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, version, deletions=(), upsertions=[upsertion])

    def parse(message: AlterUserScramCredentialsResponse) -> None:
        for result in message.results:
            raise_error(result.error_code, result.error_message, f"password of user {name}")

    return Question(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, build, parse)
