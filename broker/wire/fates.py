"""What an answer to a Produce request says about its records. One table for our own client and all adapters.

Owns: which error codes prove that an attempt appended nothing, with the reason and its source. A code that is not in
the table proves nothing. If a send ends without an answer (a full queue, a timeout), the meaning differs between client
libraries and is in workloads/clients/fates.py. The page docs/reference/send-fates.md is made from both. Shown by
tests/broker_wire/test_wire_fates.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from broker.wire.errors import ErrorCode, error_code, is_retriable


class Proof(Enum):
    """Which attempts to append a batch certainly appended nothing, if the last answer has this code."""

    EVERY_ATTEMPT = "never appended"  # each attempt would be refused in the same way
    THIS_ATTEMPT = "not by this attempt"  # an earlier attempt, whose answer was lost, may have been appended
    NONE = "perhaps appended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    code: ErrorCode
    proof: Proof
    reason: str
    source: str

    @property
    def is_retriable(self) -> bool:
        return is_retriable(self.code)


_VALIDATED = "the leader checks the batch before it appends it"
_SEQUENCE = "producer state is checked under the lock of the append, before it"
_VERIFIED = "the partition's place in the transaction is checked before the append"
_ALLOWED = "permissions are checked before the append; they may have been others at an earlier attempt"
_READ = "the request is refused as it is read"


def _fates(proof: Proof, *rows: tuple[ErrorCode, str, str]) -> dict[ErrorCode, Fate]:
    return {code: Fate(code=code, proof=proof, reason=reason, source=source) for code, reason, source in rows}


FATES: Final[dict[ErrorCode, Fate]] = {
    **_fates(
        Proof.EVERY_ATTEMPT,
        (ErrorCode.invalid_topic_exception, "no topic of clients can have this name", "topic names"),
        (ErrorCode.invalid_required_acks, "acks is the same in each attempt of a producer", "acks"),
    ),
    **_fates(
        Proof.THIS_ATTEMPT,
        (ErrorCode.corrupt_message, _VALIDATED, "record batch v2"),
        (ErrorCode.message_too_large, f"{_VALIDATED}; the limit may have been another before", "max.message.bytes"),
        (ErrorCode.record_list_too_large, f"{_VALIDATED}; the limit may have been another before", "segment.bytes"),
        (ErrorCode.not_enough_replicas, "the ISR is counted before the append", "min.insync.replicas"),
        (ErrorCode.topic_authorization_failed, _ALLOWED, "KIP-11"),
        (ErrorCode.cluster_authorization_failed, _ALLOWED, "KIP-98"),
        (ErrorCode.transactional_id_authorization_failed, _ALLOWED, "KIP-98"),
        (ErrorCode.invalid_timestamp, f"{_VALIDATED}; its bounds move with the clock", "KIP-32; KIP-937"),
        (ErrorCode.unsupported_sasl_mechanism, "no request is read before the client has proved itself", "KIP-43"),
        (ErrorCode.illegal_sasl_state, "no request is read before the client has proved itself", "KIP-43"),
        (ErrorCode.sasl_authentication_failed, "no request is read before the client has proved itself", "KIP-152"),
        (ErrorCode.unsupported_version, _READ, "KIP-35"),
        (ErrorCode.invalid_request, _READ, "protocol"),
        (ErrorCode.unsupported_for_message_format, f"{_VALIDATED}; the format may have been another before", "KIP-724"),
        (ErrorCode.policy_violation, f"{_VALIDATED}; a policy may have been another before", "KIP-108"),
        (ErrorCode.unsupported_compression_type, f"{_VALIDATED}; an earlier leader may have been newer", "KIP-110"),
        (ErrorCode.invalid_record, f"{_VALIDATED}; the topic may have been compacted since", "KIP-467"),
        (ErrorCode.out_of_order_sequence_number, _SEQUENCE, "KIP-98"),
        (ErrorCode.unknown_producer_id, _SEQUENCE, "KIP-360"),
        (ErrorCode.invalid_producer_epoch, _SEQUENCE, "KIP-98; KIP-360"),
        (ErrorCode.producer_fenced, _SEQUENCE, "KIP-588"),
        (ErrorCode.invalid_txn_state, _VERIFIED, "KIP-890"),
        (ErrorCode.invalid_producer_id_mapping, _VERIFIED, "KIP-890"),
        (ErrorCode.concurrent_transactions, _VERIFIED, "KIP-890"),
        (ErrorCode.transaction_abortable, _VERIFIED, "KIP-890"),
    ),
    **_fates(
        Proof.NONE,
        (ErrorCode.unknown_server_error, "it says nothing of where the request failed", "protocol"),
        (
            ErrorCode.unknown_topic_or_partition,
            "a batch that waits for its followers is answered with it when the topic is deleted",
            "acks=all",
        ),
        (
            ErrorCode.not_leader_or_follower,
            "a leader that is replaced while an appended batch waits for its followers answers with it, and the new "
            "leader may have the batch",
            "acks=all; KIP-101",
        ),
        (ErrorCode.request_timed_out, "appended, but not by all followers in time", "acks=all"),
        (ErrorCode.network_exception, "the connection ended; the request may have been carried out", "protocol"),
        (ErrorCode.not_enough_replicas_after_append, "appended, and the ISR shrank meanwhile", "min.insync.replicas"),
        (ErrorCode.duplicate_sequence_number, "the log has it from an earlier attempt", "KIP-98"),
        (ErrorCode.kafka_storage_error, "the disk failed while it was appended, or while it waited", "KIP-112"),
        (ErrorCode.unknown_topic_id, "as UNKNOWN_TOPIC_OR_PARTITION, for topics by id", "KIP-516"),
        (ErrorCode.inconsistent_topic_id, "as UNKNOWN_TOPIC_OR_PARTITION, for topics by id", "KIP-516"),
    ),
}  # fmt: skip


def proof_of(code: int) -> Proof:
    """NONE for a code that is not in the table, because a send that is not certain is unknown, never failed."""
    fate = FATES.get(error_code(code))
    return Proof.NONE if fate is None else fate.proof


def is_definite(code: int) -> bool:
    """True if the attempt that was answered with this code certainly appended nothing."""
    return proof_of(code) is not Proof.NONE
