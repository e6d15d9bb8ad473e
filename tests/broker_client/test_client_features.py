"""Features of a cluster: what brokers can do and what is in force, and their change, against the reference broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.client.core.errors import KafkaError
from broker.client.direct import DirectConnection
from broker.client.feature_questions import changed_features, features
from tests.broker_node.cluster_helper import Cluster
from tests.patience import wait_until

pytestmark = pytest.mark.slow
TRANSACTIONS = "transaction.version"


@pytest.fixture
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DirectConnection]:
    with Cluster(tmp_path_factory.mktemp("features"), brokers=1) as cluster:
        host, _, port = cluster.bootstrap().rpartition(":")
        connection = DirectConnection(host, int(port), client_id="test", timeout_s=20)
        yield connection
        connection.close()


def test_a_level_is_lowered_and_raised_within_what_the_broker_can_do(asked: DirectConnection) -> None:
    def level() -> int:
        return asked.ask(features()).in_force.get(TRANSACTIONS, 0)

    told = asked.ask(features())
    lowest, highest = told.supported[TRANSACTIONS]
    assert (lowest, highest) == (0, 2), "a feature whose lowest level is 0 is told too"
    assert told.in_force[TRANSACTIONS] == 2
    asked.ask(changed_features({TRANSACTIONS: 1}, is_downgrade=True, timeout_ms=20_000))
    wait_until(lambda: level() == 1, "the lower level")
    asked.ask(changed_features({TRANSACTIONS: 2}, timeout_ms=20_000))
    wait_until(lambda: level() == 2, "the higher level")
    with pytest.raises(KafkaError, match=TRANSACTIONS):
        asked.ask(changed_features({TRANSACTIONS: 9}, timeout_ms=20_000))
    with pytest.raises(KafkaError):
        asked.ask(changed_features({TRANSACTIONS: 1}, timeout_ms=20_000))  # an upgrade goes up
    assert level() == 2
