"""The interface to a cluster whose certificates, users and access control lists we may change. Chaos changes them, and
checks them as a client does.

The harness implements it for the clusters that it secures (harness/clusters/secured/security_changes.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol, runtime_checkable

from broker.door.security import Credentials

ACCEPTED: Final = "accepted"


class Issuer(Enum):
    """Who signs a certificate."""

    PRESENT = "present"  # the authority that the cluster began with
    NEXT = "next"  # another one, which the clients of the load have trusted since their start
    UNKNOWN = "unknown"  # another one, which the clients do not know


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCertificate:
    """The result of a TLS handshake like that of a client of the load. `outcome`: accepted, or why not."""

    fingerprint: str  # SHA-256; empty if no certificate was presented
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAccess:
    """What a probe of a fault needs to reach the broker through a link."""

    is_tls: bool = False
    certificate_file: str = ""  # its own certificate and key, if the other side asks for one
    credentials: Credentials | None = field(default=None, repr=False)  # if the other side asks for SASL


OPEN: Final = ProbeAccess()  # no TLS, no SASL


class SecurityChanges(Protocol):
    """Every call ends within a time limit. If a request is refused, it raises the harness' error with the broker's
    text."""

    def certificates(self, brokers: Sequence[int]) -> Mapping[str, SeenCertificate]:
        """The certificates of each broker's listener for clients, and of the proxy before it. The keys are `broker 1`,
        `proxy before broker 1` and so on."""

    def renew_certificates(self, brokers: Sequence[int], *, valid_s: float | None, issuer: Issuer) -> float:
        """Renew the certificates of the same places, for new connections. Returns when they expire, in seconds since
        1970. `valid_s` None: they are valid for longer than any run. The proxies trust the new certificates too."""

    def change_password(self) -> None:
        """Change the password of the load's user to one that its clients do not know."""

    def restore_password(self) -> None: ...

    def logins(self, brokers: Sequence[int]) -> Mapping[str, str]:
        """The result of a login at each broker like that of the load's clients: accepted, refused, or no answer."""

    def forbid(self, operation: str) -> None:
        """Delete the access control list that allows the load's user to `read` or `write` all topics."""

    def allow(self, operation: str) -> None: ...

    def allowed(self, brokers: Sequence[int], topic: str) -> Mapping[str, Sequence[str]]:
        """The operations that the load's user may do on the topic, as each broker says. A broker that does not answer
        is left out."""

    def refuse_tokens(self) -> None:
        """From now on the token endpoint gives the load's user no tokens."""

    def give_tokens(self) -> None: ...

    def token_counts(self) -> Mapping[str, int]:
        """How many tokens the endpoint has `given` to the load's user and `refused` since the start of the cluster."""


@runtime_checkable
class Secured(Protocol):
    """A cluster whose certificates, users and access control lists are ours."""

    def security_changes(self) -> SecurityChanges | None:
        """None if the cluster speaks plain text without authentication."""
