"""What is changed of a real reference cluster's security: brokers and proxies obey, and only what was meant changes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.security.sasl_client import Credentials
from chaos.ports.security import ACCEPTED, Issuer
from harness.cluster_security import ClusterSecurity
from harness.clusters.base import ClusterKey
from harness.clusters.factory import build_cluster
from harness.clusters.process_cluster import ProcessCluster
from harness.clusters.requests.admin import Admin
from harness.clusters.secured.security_changes import SecurityChanges
from harness.errors import CellError

pytestmark = pytest.mark.slow

PLACES = {"broker 1", "proxy before broker 1"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    security = ClusterSecurity(protocol="sasl_ssl", mechanism="SCRAM-SHA-256", is_authorized=True)
    key = ClusterKey(engine="reference", proxied=True, brokers=1, settings=(), security=security)
    made = build_cluster(key, tmp_path_factory.mktemp("cluster"), proxy_choice="embedded", lease=None, seed=1)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def changes(cluster: ProcessCluster) -> SecurityChanges:
    found = cluster.security_changes()
    assert found is not None
    return found


def outcomes(changes: SecurityChanges) -> set[str]:
    seen = changes.certificates([1])
    assert set(seen) == PLACES
    return {each.outcome for each in seen.values()}


def test_a_new_certificate_is_shown_by_the_broker_and_by_its_proxy(changes: SecurityChanges) -> None:
    before = changes.certificates([1])
    assert outcomes(changes) == {ACCEPTED}
    changes.renew_certificates([1], valid_s=None, issuer=Issuer.PRESENT)
    after = changes.certificates([1])
    assert outcomes(changes) == {ACCEPTED}
    assert not {each.fingerprint for each in before.values()} & {each.fingerprint for each in after.values()}


def test_a_certificate_that_has_ended_is_refused_until_there_is_a_new_one(changes: SecurityChanges) -> None:
    ends_s = changes.renew_certificates([1], valid_s=2.0, issuer=Issuer.PRESENT)
    deadline = time.monotonic() + 60
    while outcomes(changes) != {"certificate has expired"}:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert time.time() >= ends_s
    changes.renew_certificates([1], valid_s=None, issuer=Issuer.PRESENT)
    assert outcomes(changes) == {ACCEPTED}


def test_clients_trust_the_next_authority_and_no_other(changes: SecurityChanges) -> None:
    changes.renew_certificates([1], valid_s=None, issuer=Issuer.NEXT)
    assert outcomes(changes) == {ACCEPTED}
    changes.renew_certificates([1], valid_s=None, issuer=Issuer.UNKNOWN)
    assert ACCEPTED not in outcomes(changes)
    assert all(each.fingerprint for each in changes.certificates([1]).values())
    changes.renew_certificates([1], valid_s=None, issuer=Issuer.PRESENT)
    assert outcomes(changes) == {ACCEPTED}


def wait_for_login(changes: SecurityChanges, outcome: str) -> None:
    deadline = time.monotonic() + 60
    while changes.logins([1]) != {"broker 1": outcome}:
        assert time.monotonic() < deadline, changes.logins([1])
        time.sleep(0.05)


def test_a_changed_password_is_refused_until_the_old_one_is_back(
    changes: SecurityChanges, cluster: ProcessCluster
) -> None:
    wait_for_login(changes, ACCEPTED)
    changes.change_password()
    wait_for_login(changes, "refused")
    assert cluster.state(None) is not None, "the harness is another user"
    changes.restore_password()
    wait_for_login(changes, ACCEPTED)


def test_the_load_may_read_and_write_and_what_is_revoked_it_may_not(
    changes: SecurityChanges, cluster: ProcessCluster
) -> None:
    direct = [node.direct for node in cluster.layout.nodes]
    Admin(lambda: direct).create_topic("t", partitions=1, replication_factor=1, config={})

    def wait_for(operations: list[str]) -> None:
        deadline = time.monotonic() + 60
        while changes.allowed([1], "t") != {"broker 1": operations}:
            assert time.monotonic() < deadline, changes.allowed([1], "t")
            time.sleep(0.05)

    wait_for(["describe", "read", "write"])
    changes.forbid("write")
    wait_for(["describe", "read"])
    changes.allow("write")
    wait_for(["describe", "read", "write"])


def test_what_the_cluster_does_not_have_cannot_be_changed(changes: SecurityChanges) -> None:
    for refused in (changes.refuse_tokens, changes.give_tokens, changes.token_counts):
        with pytest.raises(CellError, match="OAUTHBEARER"):
            refused()


def test_with_tokens_who_has_one_gets_in(tmp_path: Path) -> None:
    security = ClusterSecurity(protocol="sasl_ssl", mechanism="OAUTHBEARER")
    key = ClusterKey(engine="reference", proxied=False, brokers=1, settings=(), security=security)
    cluster = build_cluster(key, tmp_path, proxy_choice="none", lease=None, seed=1)
    try:
        cluster.start()
        changes = cluster.security_changes()
        assert changes is not None
        assert changes.logins([1]) == {"broker 1": ACCEPTED}
        for refused in (changes.change_password, lambda: changes.forbid("write")):
            with pytest.raises(CellError):
                refused()
        credentials = cluster.layout.nodes[0].direct.security
        assert credentials is not None
        assert isinstance(credentials.credentials, Credentials)
        assert credentials.credentials.bearer is not None
    finally:
        cluster.stop()
    assert not list(tmp_path.rglob("tokens.key"))
