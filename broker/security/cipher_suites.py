"""`ssl.cipher.suites`: translates Java's names of cipher suites (those of IANA) into OpenSSL's, and says which TLS
versions remain.

Pure. It knows the suites with forward secrecy, and those with RSA key exchange and AES that old clients need. Python's
ssl cannot choose among the suites of TLS 1.3. OpenSSL has three of them, all of them good. So a setting must name all
three or none.
Shown by tests/broker_security/test_security_cipher_suites.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

OF_TLS_1_3: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
_AES: Final = {
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_CBC_SHA384": "AES256-SHA384",
    "AES_256_CBC_SHA256": "AES256-SHA256",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_128_CBC_SHA": "AES128-SHA",
}
_CHACHA: Final = {"CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305"}
_NOT_BY_ECDHE: Final = frozenset({"AES_256_CBC_SHA256"})
_NOT_BY_OTHERS: Final = frozenset({"AES_256_CBC_SHA384"})


def _named() -> Mapping[str, str]:
    found: dict[str, str] = {}
    for exchange, prefix in (("ECDHE_ECDSA", "ECDHE-ECDSA-"), ("ECDHE_RSA", "ECDHE-RSA-"), ("DHE_RSA", "DHE-RSA-")):
        absent = _NOT_BY_ECDHE if exchange.startswith("ECDHE") else _NOT_BY_OTHERS
        for iana, openssl in (*_AES.items(), *_CHACHA.items()):
            if iana not in absent:
                found[f"TLS_{exchange}_WITH_{iana}"] = prefix + openssl
    found |= {f"TLS_RSA_WITH_{iana}": openssl for iana, openssl in _AES.items() if iana not in _NOT_BY_OTHERS}
    return found


OF_TLS_1_2: Final[Mapping[str, str]] = _named()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSuites:
    """`openssl`: the suites of TLS 1.2 in the wanted order; empty: none. `versions`: the TLS versions that have a
    suite."""

    openssl: str
    versions: tuple[str, ...]


def choose_suites(names: Sequence[str], versions: Sequence[str]) -> ChosenSuites:
    """Choose suites for these versions (TLSv1.2, TLSv1.3 or both). Raises ValueError for a choice that is not
    possible."""
    assert names, "without names OpenSSL chooses"
    for name in names:
        if name not in OF_TLS_1_3 and name not in OF_TLS_1_2:
            raise ValueError(f"{name!r} is no suite that is known here, by the names of IANA")
    newer = [name for name in OF_TLS_1_3 if name in names]
    if newer and len(newer) < len(OF_TLS_1_3) and "TLSv1.3" in versions:
        missing = ", ".join(name for name in OF_TLS_1_3 if name not in newer)
        raise ValueError(f"the suites of TLS 1.3 cannot be chosen one by one here: name {missing} too, or none of them")
    older = [OF_TLS_1_2[name] for name in names if name in OF_TLS_1_2]
    left = tuple(each for each in versions if (newer if each == "TLSv1.3" else older))
    if not left:
        raise ValueError(f"none of them is of {' or '.join(versions)}")
    return ChosenSuites(openssl=":".join(older), versions=left)
