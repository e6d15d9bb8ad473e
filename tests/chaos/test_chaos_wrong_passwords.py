"""wrong_passwords: refused attempts prove it, attempts that nobody answers do not, and healing ends them."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from broker.security.sasl_client import Credentials
from chaos.faults import FAULTS
from chaos.faults.base import FaultContext, FaultRun
from chaos.targets import PartitionOfInterest
from tests.broker_client.tiny_broker import TinyBroker

ALICE = Credentials(mechanism="PLAIN", username="alice", password="wonder")


def fault(listen: str, access: object) -> FaultRun:
    client = SimpleNamespace(proxy=lambda name: SimpleNamespace(listen=listen))
    port: Any = SimpleNamespace(access=access, links=SimpleNamespace(kafka=lambda link: (client, link)))
    context = FaultContext(
        port=port, lease=None, brokers=(1,), toxic_name="x", of=PartitionOfInterest(topic="t", partition=0)
    )
    return FAULTS["wrong_passwords"].make(context, {"per_s": 100})


def test_refused_attempts_prove_it_and_healing_ends_them() -> None:
    with TinyBroker(passwords={"alice": "wonder"}) as broker:
        guesses = fault(broker.bootstrap, SimpleNamespace(context=None, credentials=ALICE))
        assert not guesses.prove().is_effective, "before it has begun"
        guesses.inject()
        deadline_s = time.monotonic() + 60
        while not guesses.prove().is_effective:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        guesses.heal()
        assert [each for each in threading.enumerate() if each.name.startswith("guesses-")] == []
        proof = guesses.prove()
        assert proof.is_effective
        assert broker.authentications == 0
        told: Any = proof.detail["attempts"]
        assert set(told["broker 1"]) == {"refused"}
        guesses.heal()  # once more does no harm


def test_attempts_that_nobody_answers_prove_nothing() -> None:
    guesses = fault("127.0.0.1:1", SimpleNamespace(context=None, credentials=ALICE))
    guesses.inject()
    deadline_s = time.monotonic() + 60
    while not guesses.prove().detail["attempts"]["broker 1"]:  # type: ignore[index]
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    guesses.heal()
    assert not guesses.prove().is_effective


@pytest.mark.parametrize("access", [None, SimpleNamespace(context=None, credentials=None)])
def test_a_cluster_without_passwords_is_refused(access: object) -> None:
    with pytest.raises(ValueError, match=r"cluster\.security must be sasl_plaintext or sasl_ssl"):
        fault("127.0.0.1:1", access).inject()
    assert "from 1 to 100" in (FAULTS["wrong_passwords"].problem({"per_s": 0}) or "")
