"""Certificates of brokers change while they are in use. They are renewed in time, they expire, or another authority
signs new ones.

A certificate is checked in a handshake. So open connections never notice a change. Only new connections do. In a run
the proxies terminate TLS, and clients see the proxies' certificates. So the proxy before each target gets a certificate
of the same kind at the same time as its broker.

- certificate_rotated gives new certificates, which stay.

- certificate_expired gives certificates that expire after `valid_ms`. The fault takes effect when they have expired.

- authority_replaced gives certificates of another authority. `trusted` says whether clients trusted it already
  (before) or not (never).

Healing the last two gives certificates of the first authority again. There is no lease, because the brokers and their
keys belong to the harness and end with it.

Proved by handshakes with each broker and each proxy, like those of a client of the load. They show which certificate is
presented and whether it is accepted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from chaos.faults.base import FaultContext, FaultSpec, Parameter, Proof
from chaos.ports.security import ACCEPTED, Issuer, Secured, SecurityChanges, SeenCertificate

VALID_MS_MIN, VALID_MS_MAX = 2_000, 600_000
EXPIRED = "certificate has expired"  # OpenSSL's text
POLL_S = 0.05
EXPIRED_WITHIN_S = 20.0  # after its expiry; this host has one clock, so this only allows for a busy host


def changes_of(context: FaultContext) -> SecurityChanges:
    brokers = context.port.brokers
    changes = brokers.security_changes() if isinstance(brokers, Secured) else None
    if changes is None:
        raise ValueError("the cluster is in plain text, or somebody else's: it needs cluster.security")
    return changes


class _Renewed:
    """Renews certificates. Its proof compares what a client saw before and after, at each broker and proxy."""

    def __init__(self, context: FaultContext) -> None:
        self._context = context
        self._before: Mapping[str, SeenCertificate] = {}

    @property
    def changes(self) -> SecurityChanges:
        return changes_of(self._context)

    def renew(self, *, valid_s: float | None = None, issuer: Issuer = Issuer.PRESENT) -> float:
        brokers = self._context.brokers
        self._before = self._before or self.changes.certificates(brokers)
        return self.changes.renew_certificates(brokers, valid_s=valid_s, issuer=issuer)

    def restore(self) -> None:
        """Give certificates of the first authority and with the first validity again, if some were renewed. They are
        new certificates."""
        if self._before:
            self.changes.renew_certificates(self._context.brokers, valid_s=None, issuer=Issuer.PRESENT)
            self._before = {}

    def prove(self, outcomes: frozenset[str] | None) -> Proof:
        """Prove that each place presents another certificate than before, with one of these outcomes. None: with any
        outcome except accepted."""
        if not self._before:
            return Proof(is_effective=False, detail={})
        after = self.changes.certificates(self._context.brokers)
        return Proof(
            is_effective=all(
                bool(seen.fingerprint)
                and seen.fingerprint != self._before[place].fingerprint
                and (seen.outcome in outcomes if outcomes else seen.outcome != ACCEPTED)
                for place, seen in after.items()
            ),
            detail={
                "seen": {
                    place: {
                        "before": self._before[place].fingerprint,
                        "after": seen.fingerprint,
                        "handshake": seen.outcome,
                    }
                    for place, seen in after.items()
                }
            },
        )


class CertificateRotated:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._renewed = _Renewed(context)

    def inject(self) -> None:
        self._renewed.renew()

    def heal(self) -> None:
        """Does nothing: the new certificates are as good as the old ones."""

    def prove(self) -> Proof:
        return self._renewed.prove(frozenset({ACCEPTED}))


class CertificateExpired:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._renewed = _Renewed(context)
        self._brokers = context.brokers
        self._valid_s = int(parameters["valid_ms"]) / 1000

    def inject(self) -> None:
        """Takes as long as the certificates are valid, because the fault takes effect only when they have expired."""
        ends_s = self._renewed.renew(valid_s=self._valid_s)
        deadline_s = ends_s + EXPIRED_WITHIN_S
        while time.time() <= ends_s or not self._are_expired():  # the wall clock decides when a certificate expires
            if time.time() > deadline_s:
                raise TimeoutError(f"certificates that ended {EXPIRED_WITHIN_S:.0f} s ago are still accepted")
            time.sleep(POLL_S)

    def _are_expired(self) -> bool:
        seen = self._renewed.changes.certificates(self._brokers)
        return all(each.outcome == EXPIRED for each in seen.values())

    def heal(self) -> None:
        self._renewed.restore()

    def prove(self) -> Proof:
        return self._renewed.prove(frozenset({EXPIRED}))


class AuthorityReplaced:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._renewed = _Renewed(context)
        self._is_trusted = parameters["trusted"] == "before"

    def inject(self) -> None:
        self._renewed.renew(issuer=Issuer.NEXT if self._is_trusted else Issuer.UNKNOWN)

    def heal(self) -> None:
        self._renewed.restore()

    def prove(self) -> Proof:
        return self._renewed.prove(frozenset({ACCEPTED}) if self._is_trusted else None)


def _validity_problem(parameters: Mapping[str, Parameter]) -> str | None:
    valid_ms = int(parameters["valid_ms"])
    if VALID_MS_MIN <= valid_ms <= VALID_MS_MAX:
        return None
    return f"valid_ms of certificate_expired is from {VALID_MS_MIN} to {VALID_MS_MAX}, got {valid_ms}"


def _trust_problem(parameters: Mapping[str, Parameter]) -> str | None:
    trusted = parameters["trusted"]
    return (
        None if trusted in ("before", "never") else f"trusted of authority_replaced is before or never, got {trusted}"
    )


_ENGINES = ("reference", "kafka")

SPECS: tuple[FaultSpec, ...] = (
    FaultSpec(
        name="certificate_rotated",
        label="certificates renewed",
        colour="#2e7d32",
        target_kind="broker",
        default_target="all",
        make=CertificateRotated,
        parameters={},
        engines=_ENGINES,
    ),
    FaultSpec(
        name="certificate_expired",
        label="certificates expired",
        colour="#6a1b9a",
        target_kind="broker",
        default_target="all",
        make=CertificateExpired,
        parameters={"valid_ms": 3000},
        engines=_ENGINES,
        problem=_validity_problem,
    ),
    FaultSpec(
        name="authority_replaced",
        label="certificates of another authority",
        colour="#4527a0",
        target_kind="broker",
        default_target="all",
        make=AuthorityReplaced,
        parameters={"trusted": "before"},
        engines=_ENGINES,
        problem=_trust_problem,
    ),
)
