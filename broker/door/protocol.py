"""What answers say: error codes, what a code proves about the records of a Produce, and what is wrong with malformed
bytes. Numbers of variable length."""

from __future__ import annotations

from broker.wire.errors import CorruptBatchError, ErrorCode, ProtocolError, RemoteProtocolError, error_name
from broker.wire.fates import FATES, Proof, proof_of
from broker.wire.varints import read_uvarint, uvarint

__all__ = [
    "FATES",
    "CorruptBatchError",
    "ErrorCode",
    "Proof",
    "ProtocolError",
    "RemoteProtocolError",
    "error_name",
    "proof_of",
    "read_uvarint",
    "uvarint",
]
