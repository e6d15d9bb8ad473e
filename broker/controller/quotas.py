"""AlterClientQuotas (KIP-546): limits by user, by client id, by both, and by ip. Pure.

broker/node/features/quotas enforces them. `controller_mutation_rate` (KIP-599) is left out.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping

from broker.controller.image import MetadataImage, QuotaEntity
from broker.controller.outcome import Outcome
from broker.controller.records import ClientQuotaRecord, EntityPart, MetadataRecord
from broker.controller.setting_types import AlterClientQuotas, AlterClientQuotasResponse, QuotaChange, QuotaOutcome
from broker.wire.errors import ErrorCode

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"
PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONNECTION_CREATION_RATE = "connection_creation_rate"
_OF_CLIENTS = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)
# Which quotas an entity can have, by the types of its parts.
QUOTA_KEYS: Mapping[frozenset[str], tuple[str, ...]] = {
    frozenset({USER}): _OF_CLIENTS,
    frozenset({CLIENT_ID}): _OF_CLIENTS,
    frozenset({USER, CLIENT_ID}): _OF_CLIENTS,
    frozenset({IP}): (CONNECTION_CREATION_RATE,),
}


def alter_client_quotas(image: MetadataImage, request: AlterClientQuotas) -> Outcome:
    records: list[MetadataRecord] = []
    answers: list[QuotaOutcome] = []
    for change in request.changes:
        entity = tuple(sorted(change.entity, key=lambda part: part[0]))
        error, message = _problem(change)
        if error == ErrorCode.none:
            present = image.client_quotas.get(entity, {})
            records += [
                quota_record(entity, key, value)
                for key, value in change.values.items()
                if value is not None or key in present
            ]
        answers.append(QuotaOutcome(entity=change.entity, error_code=error, error_message=message))
    response = AlterClientQuotasResponse(error_code=ErrorCode.none, entries=tuple(answers))
    return Outcome(response=response, records=() if request.validate_only else tuple(records))


def quota_record(entity: QuotaEntity, key: str, value: float | None) -> ClientQuotaRecord:
    parts = tuple(EntityPart(kind=kind, name=name) for kind, name in entity)
    return ClientQuotaRecord(entity=parts, key=key, value=value or 0.0, remove=value is None)


def _problem(change: QuotaChange) -> tuple[int, str | None]:
    kinds = [kind for kind, _ in change.entity]
    keys = QUOTA_KEYS.get(frozenset(kinds), ())
    if not keys or len(set(kinds)) < len(kinds):
        known = "; ".join(" and ".join(sorted(each)) for each in QUOTA_KEYS)
        return ErrorCode.invalid_request, f"Quotas are kept for {known}; got {', '.join(kinds) or 'nothing'}"
    for kind, name in change.entity:
        if name == "":
            return ErrorCode.invalid_request, f"Empty {kind} not supported"
        if kind == IP and name is not None and not _is_address(name):
            return ErrorCode.invalid_request, f"{name} is not a valid IP"
    for key, value in change.values.items():
        if value is None:
            continue  # a removal is accepted for any name, also of a quota that does not exist
        if key not in keys:
            return ErrorCode.invalid_request, f"Invalid configuration key {key}: expected one of {', '.join(keys)}"
        if not 0 < value < math.inf:  # every comparison with NaN is false, so NaN is refused too
            return ErrorCode.invalid_request, f"Quota {key} must be a number greater than 0, got {value}"
        if key != REQUEST_PERCENTAGE and value != int(value):
            return ErrorCode.invalid_request, f"Quota {key} cannot be a fractional value, got {value}"
    return ErrorCode.none, None


def _is_address(name: str) -> bool:
    """Kafka also accepts a host name, which it looks up."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
