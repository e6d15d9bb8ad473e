"""TLS from a proxy to its upstream. The client's side stays plain, so that the bytes can be read and changed.

It is configured by files in PEM form. Without a CA file, the host's own trust store is used. Owns no socket. Shown by
tests/harness/test_harness_external.py.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from chaos.toxiproxy.errors import ApiError


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTls:
    """`server_name` is the name that the certificate is checked for, if the upstream's address is not the
    broker's own."""

    ca_file: str = ""
    certificate_file: str = ""  # the proxy's own, with its key, where the broker asks for one
    server_name: str = ""
    is_hostname_checked: bool = True

    @classmethod
    def from_json(cls, fields: Mapping[str, object]) -> UpstreamTls:
        """ApiError 400 for unknown fields, wrong types and files that cannot be used."""
        known = {"ca_file": str, "certificate_file": str, "server_name": str, "is_hostname_checked": bool}
        for name, value in fields.items():
            if name not in known:
                raise ApiError(400, f"upstream_tls has no field {name!r}, it has {', '.join(known)}")
            if type(value) is not known[name]:
                raise ApiError(400, f"upstream_tls.{name}: expected {known[name].__name__}, got {value!r}")
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
        """OSError (ssl.SSLError is one) when a file is missing or holds something else."""
        context = ssl.create_default_context(cafile=self.ca_file or None)
        context.check_hostname = self.is_hostname_checked
        if self.certificate_file:
            context.load_cert_chain(self.certificate_file)
        return context
