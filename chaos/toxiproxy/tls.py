"""TLS on either side of a proxy. Inside the proxy the bytes are plain, so that they can be read and changed.

It is configured by files in PEM form. Without a CA file, the host's own trust store is used. It owns no socket. Shown
by tests/chaos/test_chaos_tls.py and tests/harness/test_harness_external.py.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from chaos.toxiproxy.errors import ApiError

_UPSTREAM: Final = {"ca_file": str, "certificate_file": str, "server_name": str, "is_hostname_checked": bool}
_LISTEN: Final = {"certificate_file": str, "client_ca_file": str}


def _check_fields(name: str, fields: Mapping[str, object], known: Mapping[str, type]) -> None:
    for field, value in fields.items():
        if field not in known:
            raise ApiError(400, f"{name} has no field {field!r}, it has {', '.join(known)}")
        if type(value) is not known[field]:
            raise ApiError(400, f"{name}.{field}: expected {known[field].__name__}, got {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenTls:
    """TLS to the clients. `certificate_file` has the key and the chain that the proxy presents. `client_ca_file` has
    the authorities that must have signed the clients' certificates. Empty: clients need no certificate."""

    certificate_file: str
    client_ca_file: str = ""

    @classmethod
    def from_json(cls, fields: Mapping[str, object]) -> ListenTls:
        """ApiError 400 for unknown fields, wrong types and files that cannot be used."""
        _check_fields("listen_tls", fields, _LISTEN)
        if not fields.get("certificate_file"):
            raise ApiError(400, "listen_tls.certificate_file: expected a file with key and certificates")
        made = cls(**fields)  # type: ignore[arg-type]  # checked above
        try:
            made.context()
        except OSError as error:
            raise ApiError(400, f"listen_tls: {error}") from error
        return made

    def to_json(self) -> dict[str, object]:
        shown: dict[str, object] = {"certificate_file": self.certificate_file}
        return shown | ({"client_ca_file": self.client_ca_file} if self.client_ca_file else {})

    def context(self) -> ssl.SSLContext:
        """Raises OSError (ssl.SSLError is one) if the file is missing or holds something else."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate_file, password="")  # a key with a password is an error
        if self.client_ca_file:
            context.load_verify_locations(cafile=self.client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTls:
    """TLS to the upstream. `server_name` is the name that the certificate must have, if the upstream's address is not
    the broker's own."""

    ca_file: str = ""
    certificate_file: str = ""  # the proxy's own certificate and key, if the broker asks for one
    server_name: str = ""
    is_hostname_checked: bool = True

    @classmethod
    def from_json(cls, fields: Mapping[str, object]) -> UpstreamTls:
        """ApiError 400 for unknown fields, wrong types and files that cannot be used."""
        _check_fields("upstream_tls", fields, _UPSTREAM)
        made = cls(**fields)  # type: ignore[arg-type]  # checked above
        try:
            made.context()
        except OSError as error:
            raise ApiError(400, f"upstream_tls: {error}") from error
        return made

    def to_json(self) -> dict[str, object]:
        return {
            "ca_file": self.ca_file,
            "certificate_file": self.certificate_file,
            "server_name": self.server_name,
            "is_hostname_checked": self.is_hostname_checked,
        }

    def context(self) -> ssl.SSLContext:
        """Raises OSError (ssl.SSLError is one) if a file is missing or holds something else."""
        context = ssl.create_default_context(cafile=self.ca_file or None)
        context.check_hostname = self.is_hostname_checked
        if self.certificate_file:
            context.load_cert_chain(self.certificate_file)
        return context
