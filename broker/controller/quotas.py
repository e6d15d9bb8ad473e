"""AlterClientQuotas (KIP-546): limits by client id. Pure; what they do is in broker/node/net/quotas.py.

Only the entity type `client-id` is kept: without authentication there is no user, and limits by ip are refused.
"""

from __future__ import annotations

import math

from broker.controller.image import MetadataImage
from broker.controller.outcome import Outcome
from broker.controller.records import ClientQuotaRecord, MetadataRecord
from broker.controller.types import AlterClientQuotas, AlterClientQuotasResponse, QuotaChange, QuotaOutcome
from broker.wire.errors import ErrorCode

CLIENT_ID = "client-id"
PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
QUOTA_KEYS = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)


def alter_client_quotas(image: MetadataImage, request: AlterClientQuotas) -> Outcome:
    records: list[MetadataRecord] = []
    answers: list[QuotaOutcome] = []
    for change in request.changes:
        entity = tuple(sorted(change.entity, key=lambda part: part[0]))
        error, message = _problem(change)
        if error == ErrorCode.none:
            present = image.client_quotas.get(entity, {})
            records += [
                ClientQuotaRecord(entity=entity, key=key, value=value)
                for key, value in change.values.items()
                if value is not None or key in present
            ]
        answers.append(QuotaOutcome(entity=change.entity, error_code=error, error_message=message))
    response = AlterClientQuotasResponse(error_code=ErrorCode.none, entries=tuple(answers))
    return Outcome(response=response, records=() if request.validate_only else tuple(records))


def _problem(change: QuotaChange) -> tuple[int, str | None]:
    kinds = [kind for kind, _ in change.entity]
    if kinds != [CLIENT_ID]:
        return ErrorCode.invalid_request, f"quotas are kept for the entity {CLIENT_ID} only, got {', '.join(kinds)}"
    if any(name == "" for _, name in change.entity):
        return ErrorCode.invalid_request, f"empty name of {CLIENT_ID}"
    for key, value in change.values.items():
        if value is None:
            continue  # an entry that is not kept can be removed under any name
        if key not in QUOTA_KEYS:
            return (
                ErrorCode.invalid_request,
                f"Invalid configuration key {key}: expected one of {', '.join(QUOTA_KEYS)}",
            )
        if not 0 < value < math.inf:  # NaN compares to nothing
            return ErrorCode.invalid_request, f"Quota {key} must be a number greater than 0, got {value}"
        if key != REQUEST_PERCENTAGE and value != int(value):
            return ErrorCode.invalid_request, f"Quota {key} cannot be a fractional value, got {value}"
    return ErrorCode.none, None
