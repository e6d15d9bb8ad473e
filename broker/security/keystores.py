"""Converts PKCS12 stores (RFC 7292), as keytool and openssl make them, to the PEM text that Python's ssl needs. Pure.

Java reads a store by its content, whatever type the settings name. Since Java 9 keytool makes PKCS12, also where
settings say JKS. So the content decides here too. The older form JKS is not read (docs/decisions/0015-key-stores.md
says why). The package `cryptography` does the work, and is imported only for such a store.
Shown by tests/broker_security/test_security_keystores.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cryptography.x509 import Certificate

STORE_TYPES: Final = ("PEM", "PKCS12", "JKS")  # Kafka's names
_JKS_MAGIC, _DER_SEQUENCE = b"\xfe\xed\xfe\xed", b"\x30"
_CHAIN_MAX: Final = 20  # certificates


class StoreError(Exception):
    """Why a store cannot be used. The text never contains a password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """PEM texts. An empty text: the store has none. `trusted`: all certificates of the store."""

    key: str = field(repr=False)
    chain: str  # certificates of the key, its own one first
    trusted: str


def kind_of(content: bytes) -> str:
    """PEM, PKCS12 or JKS, by the content. Otherwise "no store"."""
    if b"-----BEGIN" in content:
        return "PEM"
    if content.startswith(_JKS_MAGIC):
        return "JKS"
    return "PKCS12" if content.startswith(_DER_SEQUENCE) else "no store"


def conversion(kind: str, store: str, location: str) -> str:
    """The commands with which an operator converts a Java store to a PEM file."""
    place = location or f"{store}.{'jks' if kind == 'JKS' else 'p12'}"
    steps = []
    if kind == "JKS":
        steps.append(f"keytool -importkeystore -srckeystore {place} -destkeystore {store}.p12 -deststoretype PKCS12")
        place = f"{store}.p12"
    what = "-nokeys " if store == "truststore" else "-nodes "
    steps.append(f"openssl pkcs12 -in {place} {what}-out {store}.pem")
    return f"convert it: {' && '.join(steps)}"


def read_pkcs12(content: bytes, password: str) -> Store:
    """An empty password: the store has none. If the store has several keys, the first one counts. Raises StoreError."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    try:
        found = load_pkcs12(content, password.encode() if password else None)
    except (ValueError, TypeError) as error:  # TypeError: the store is encrypted, and there is no password
        raise StoreError(f"the store cannot be read: {str(error)[:200]}") from None
    others = [each.certificate for each in found.additional_certs]
    own = None if found.cert is None else found.cert.certificate
    key = ""
    if found.key is not None:
        key = found.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
    return Store(
        key=key,
        chain="" if own is None else _pem(_chain(own, others)),
        trusted=_pem(dict.fromkeys([*([] if own is None else [own]), *others])),
    )


def _chain(own: Certificate, others: list[Certificate]) -> list[Certificate]:
    """The chain from the certificate of the key up to an authority, as far as the store has it."""
    chain = [own]
    while chain[-1].issuer != chain[-1].subject and len(chain) < _CHAIN_MAX:
        above = next((each for each in others if each.subject == chain[-1].issuer and each not in chain), None)
        if above is None:
            break
        chain.append(above)
    return chain


def _pem(certificates: Iterable[Certificate]) -> str:
    from cryptography.hazmat.primitives import serialization

    return "".join(each.public_bytes(serialization.Encoding.PEM).decode() for each in certificates)
