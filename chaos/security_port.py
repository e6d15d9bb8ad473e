"""What chaos asks of a cluster whose certificates, users and access control lists are ours: to change them, and to look
at them as a client does.

The harness implements it for the clusters that it secures (harness/clusters/security_changes.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from broker.client.core.sasl import Credentials

ACCEPTED: Final = "accepted"


class Issuer(Enum):
    """Who signs a certificate."""

    PRESENT = "present"  # the authority that the cluster began with
    NEXT = "next"  # another one, which the clients of the load have trusted since they began
    UNKNOWN = "unknown"  # another one, which they do not know


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCertificate:
    """One handshake by TLS as a client of the load does it. `outcome`: accepted, or why not."""

    fingerprint: str  # SHA-256; empty if nothing was shown
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAccess:
    """How a probe of a fault gets through a link to the broker."""

    is_tls: bool = False
    certificate_file: str = ""  # its own, with the key, where the other side asks for one
    credentials: Credentials | None = field(default=None, repr=False)  # where it asks for SASL


OPEN: Final = ProbeAccess()  # nobody asks who it is


class SecurityChanges(Protocol):
    """Every call ends within a limit, and raises the harness' error with the broker's words if it is refused."""

    def certificates(self, brokers: Sequence[int]) -> Mapping[str, SeenCertificate]:
        """Of the clients' listener of each broker, and of the proxy before it: `broker 1`, `proxy before broker 1`."""

    def renew_certificates(self, brokers: Sequence[int], *, valid_s: float | None, issuer: Issuer) -> float:
        """Of the same places, for the connections to come. When they end, in seconds since 1970. `valid_s` None: after
        any run. The proxies trust the new certificates too."""

    def change_password(self) -> None:
        """Of the user of the load, to one that its clients do not know."""

    def restore_password(self) -> None: ...

    def logins(self, brokers: Sequence[int]) -> Mapping[str, str]:
        """By broker: what happens to somebody who logs in as the load's clients do: accepted, refused, or no answer."""

    def forbid(self, operation: str) -> None:
        """The list that allows the load's user to `read` or `write` all topics is deleted."""

    def allow(self, operation: str) -> None: ...

    def allowed(self, brokers: Sequence[int], topic: str) -> Mapping[str, Sequence[str]]:
        """By broker: what the load's user may do with the topic. A broker that does not answer is left out."""

    def refuse_tokens(self) -> None:
        """The token endpoint gives none to the load's user any more."""

    def give_tokens(self) -> None: ...

    def token_counts(self) -> Mapping[str, int]:
        """How many tokens the load's user was `given` and `refused` since the cluster began."""
