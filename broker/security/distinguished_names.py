"""The subject of a certificate as text, in the form of RFC 2253. `ssl.principal.mapping.rules` apply to this text.

The last part of the subject comes first: `CN=alice,OU=Users,O=Example,C=US`. Only the short names of the RFC are used.
Any other attribute is its object identifier and the bytes of its value: `1.2.840.113549.1.9.1=#1605…`.
Shown by tests/broker_security/test_security_names.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

# As `ssl.SSLSocket.getpeercert` returns it: relative names in the order of the certificate, each with its attributes.
Subject: TypeAlias = Sequence[Sequence[tuple[str, str]]]

_SHORT: Final[Mapping[str, str]] = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_PRINTABLE, _UTF8, _IA5 = 0x13, 0x0C, 0x16
# Names without a short form -> (object identifier, the ASN.1 type that certificates usually have there).
_LONG: Final[Mapping[str, tuple[str, int]]] = {
    "emailAddress": ("1.2.840.113549.1.9.1", _IA5),
    "serialNumber": ("2.5.4.5", _PRINTABLE),
    "surname": ("2.5.4.4", _UTF8),
    "givenName": ("2.5.4.42", _UTF8),
    "title": ("2.5.4.12", _UTF8),
    "description": ("2.5.4.13", _UTF8),
    "dnQualifier": ("2.5.4.46", _PRINTABLE),
    "organizationIdentifier": ("2.5.4.97", _UTF8),
}


def rfc2253(subject: Subject) -> str:
    return ",".join("+".join(_attribute(name, value) for name, value in relative) for relative in reversed(subject))


def _attribute(name: str, value: str) -> str:
    if name in _SHORT:
        return f"{_SHORT[name]}={_escaped(value)}"
    identifier, kind = _LONG.get(name, (name, _UTF8))
    encoded = value.encode()
    return f"{identifier}=#{(bytes((kind,)) + _length(len(encoded)) + encoded).hex()}"


def _length(count: int) -> bytes:
    """The length in DER."""
    if count < 0x80:
        return bytes((count,))
    digits = count.to_bytes((count.bit_length() + 7) // 8, "big")
    return bytes((0x80 | len(digits),)) + digits


def _escaped(value: str) -> str:
    """RFC 2253, section 2.4."""
    text = "".join(f"\\{each}" if each in ',+"\\<>;' else each for each in value)
    if value[:1] in ("#", " "):
        text = f"\\{text}"
    if len(value) > 1 and value.endswith(" "):
        text = f"{text[:-1]}\\ "
    return text
