"""How clients reach a cluster: a value that suites, plans and clusters share. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSecurity:
    """How the listeners of our own cluster are secured: values of cluster.security, cluster.sasl.mechanism
    and cluster.ssl.client.auth."""

    protocol: str = "plaintext"
    mechanism: str = ""  # empty without SASL
    is_mutual: bool = False  # clients prove with a certificate who they are
    is_authorized: bool = False  # the load may do what access control lists allow

    @property
    def is_secured(self) -> bool:
        return self.protocol != "plaintext"

    @property
    def is_tls(self) -> bool:
        return self.protocol.endswith("ssl")

    @property
    def is_sasl(self) -> bool:
        return self.protocol.startswith("sasl")

    @property
    def is_scram(self) -> bool:
        return self.mechanism.startswith("SCRAM")

    @property
    def label(self) -> str:
        """`sasl_ssl PLAIN`; for records and reports."""
        lists = " with access control lists" if self.is_authorized else ""
        certificates = " with client certificates" if self.is_mutual else ""
        return f"{self.protocol} {self.mechanism}".strip() + certificates + lists


BEARER: Final = "OAUTHBEARER"
PLAINTEXT: Final = ClusterSecurity()


def security_of_client(properties: Mapping[str, str]) -> ClusterSecurity:
    """What a client with these properties speaks."""
    protocol = properties.get("security.protocol", "PLAINTEXT").lower()
    is_sasl = protocol.startswith("sasl")
    return ClusterSecurity(
        protocol=protocol,
        mechanism=properties.get("sasl.mechanism", "GSSAPI") if is_sasl else "",
        is_mutual=protocol.endswith("ssl") and any(name.startswith("ssl.keystore.") for name in properties),
    )
