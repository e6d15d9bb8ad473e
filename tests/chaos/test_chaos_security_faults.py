"""Faults of certificates, passwords, lists and tokens: what proves them, what does not, and that healing ends them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.faults import FAULTS
from chaos.faults.base import FaultContext, FaultRun, Parameter
from chaos.model import Scenario
from chaos.ports.security import ACCEPTED, Issuer, SeenCertificate
from chaos.targets import PartitionOfInterest


class FakeChanges:
    """Two brokers. `deaf`: a broker that takes nothing in."""

    def __init__(self, deaf: int | None = None) -> None:
        self._deaf = deaf
        self._shown = {
            1: SeenCertificate(fingerprint="a", outcome=ACCEPTED),
            2: SeenCertificate(fingerprint="b", outcome=ACCEPTED),
        }
        self._is_password_old, self._allowed, self._gives = True, {"read", "write"}, True
        self._count = 0
        self.tokens = {"given": 5, "refused": 0}

    def certificates(self, brokers: Sequence[int]) -> Mapping[str, SeenCertificate]:
        return {f"broker {broker}": self._shown[broker] for broker in brokers}

    def renew_certificates(self, brokers: Sequence[int], *, valid_s: float | None, issuer: Issuer) -> float:
        self._count += 1
        outcome = {Issuer.UNKNOWN: "unable to get local issuer certificate"}.get(issuer, ACCEPTED)
        if valid_s is not None:
            outcome = "certificate has expired"
        for broker in brokers:
            if broker != self._deaf:
                self._shown[broker] = SeenCertificate(fingerprint=f"{broker}-{self._count}", outcome=outcome)
        return 0.0  # long ago, so nobody waits

    def change_password(self) -> None:
        self._is_password_old = False

    def restore_password(self) -> None:
        self._is_password_old = True

    def logins(self, brokers: Sequence[int]) -> Mapping[str, str]:
        return {f"broker {broker}": ACCEPTED if self._is_password_old else "refused" for broker in brokers}

    def forbid(self, operation: str) -> None:
        self._allowed.discard(operation)

    def allow(self, operation: str) -> None:
        self._allowed.add(operation)

    def allowed(self, brokers: Sequence[int], topic: str) -> Mapping[str, Sequence[str]]:
        return {f"broker {broker}": sorted(self._allowed) for broker in brokers}

    def refuse_tokens(self) -> None:
        self._gives = False

    def give_tokens(self) -> None:
        self._gives = True

    def token_counts(self) -> Mapping[str, int]:
        return dict(self.tokens)

    def ask_for_a_token(self) -> None:
        self.tokens["given" if self._gives else "refused"] += 1


def fault(name: str, changes: FakeChanges | None, **parameters: Parameter) -> FaultRun:
    port: Any = SimpleNamespace(brokers=SimpleNamespace(security_changes=lambda: changes))
    context = FaultContext(
        port=port, lease=None, brokers=(1, 2), toxic_name="x", of=PartitionOfInterest(topic="t", partition=0)
    )
    spec = FAULTS[name]
    return spec.make(context, {**spec.parameters, **parameters})


CERTIFICATES: list[tuple[str, dict[str, Parameter]]] = [
    ("certificate_rotated", {}), ("certificate_expired", {"valid_ms": 2000}),
    ("authority_replaced", {"trusted": "before"}), ("authority_replaced", {"trusted": "never"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "parameters"), CERTIFICATES)
def test_other_certificates_prove_it_and_afterwards_they_are_accepted(
    name: str, parameters: dict[str, Parameter]
) -> None:
    changes = FakeChanges()
    renewed = fault(name, changes, **parameters)
    assert not renewed.prove().is_effective, "before it has begun"
    renewed.heal()  # nothing was done, so nothing is undone
    assert changes.certificates([1])["broker 1"].fingerprint == "a"
    renewed.inject()
    proof = renewed.prove()
    assert proof.is_effective
    seen: Any = proof.detail["seen"]
    assert (seen["broker 2"]["before"], seen["broker 2"]["after"]) == ("b", "2-1")
    renewed.heal()
    renewed.heal()  # once more does no harm
    assert {each.outcome for each in changes.certificates([1, 2]).values()} == {ACCEPTED}


@pytest.mark.parametrize(("name", "parameters"), [each for each in CERTIFICATES if each[0] != "certificate_expired"])
def test_a_broker_that_keeps_its_certificate_proves_nothing(name: str, parameters: dict[str, Parameter]) -> None:
    renewed = fault(name, FakeChanges(deaf=2), **parameters)
    renewed.inject()
    assert not renewed.prove().is_effective


def test_a_password_that_every_broker_refuses_proves_it() -> None:
    changes = FakeChanges()
    changed = fault("password_changed", changes)
    assert not changed.prove().is_effective
    changed.heal()
    changed.inject()
    assert changed.prove().is_effective
    changed.heal()
    assert set(changes.logins([1, 2]).values()) == {ACCEPTED}
    assert not changed.prove().is_effective


def test_a_list_that_every_broker_has_forgotten_proves_it() -> None:
    changes = FakeChanges()
    revoked = fault("acl_revoked", changes, operation="write")
    assert not revoked.prove().is_effective
    revoked.inject()
    proof = revoked.prove()
    assert proof.is_effective
    assert proof.detail["allowed"] == {
        "before": {"broker 1": ["read", "write"], "broker 2": ["read", "write"]},
        "after": {"broker 1": ["read"], "broker 2": ["read"]},
    }
    revoked.heal()
    assert changes.allowed([1], "t") == {"broker 1": ["read", "write"]}


def test_what_was_never_allowed_cannot_be_revoked() -> None:
    changes = FakeChanges()
    changes.forbid("read")
    with pytest.raises(ValueError, match="may not read even before"):
        fault("acl_revoked", changes, operation="read").inject()


def test_only_tokens_that_were_refused_prove_it() -> None:
    changes = FakeChanges()
    refused = fault("tokens_refused", changes)
    assert not refused.prove().is_effective
    refused.inject()
    assert not refused.prove().is_effective, "nobody has asked yet"
    changes.ask_for_a_token()
    assert refused.prove().detail == {"tokens": {"given": 0, "refused": 1}}
    assert refused.prove().is_effective
    refused.heal()
    changes.ask_for_a_token()
    assert changes.tokens == {"given": 6, "refused": 1}


@pytest.mark.parametrize(
    "name", ["certificate_rotated", "certificate_expired", "authority_replaced", "password_changed", "acl_revoked",
             "tokens_refused"]
)  # fmt: skip
def test_a_cluster_in_plain_text_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"it needs cluster\.security"):
        fault(name, None).inject()


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [("certificate_expired", {"valid_ms": 10}, "from 2000 to 600000"),
     ("authority_replaced", {"trusted": "later"}, "before or never"),
     ("acl_revoked", {"operation": "delete"}, "read or write")],
)  # fmt: skip
def test_parameters_that_mean_nothing_are_refused(name: str, parameters: dict[str, Parameter], words: str) -> None:
    assert words in (FAULTS[name].problem(parameters) or "")


def test_a_scenario_with_lists_or_a_mechanism_needs_sasl() -> None:
    document = {
        "name": "x", "title": "x", "damage": "none", "source": "a test", "cases": {"only": {"title": "x"}},
        "timeline": [{"id": "wait", "at": "1s"}], "security": "ssl",
    }  # fmt: skip
    for more in ({"authorization": True}, {"sasl_mechanism": "SCRAM-SHA-256"}):
        with pytest.raises(ValueError, match="need `security: sasl_ssl`"):
            Scenario.model_validate({**document, **more})
        Scenario.model_validate({**document, **more, "security": "sasl_ssl"})
