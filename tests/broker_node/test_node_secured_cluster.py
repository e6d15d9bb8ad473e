"""Three brokers that prove to one another who they are, on every listener: they elect, replicate and lose a leader."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_helper import QUIET
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from security_helper import PLAIN_ENTRY, USERS, SecuredCluster, Wire, dial

from broker.wire.apis import ApiKey
from tests.patience import wait_until

pytestmark = pytest.mark.slow
MESSAGES = 200
PROTOCOLS = (
    "EXTERNAL:SASL_SSL",
    "DIRECT:SASL_SSL",
    "MTLS:SSL",
    "SSL:SSL",
    "SASL_PLAINTEXT:SASL_PLAINTEXT",
    "SASL_SSL:SASL_SSL",
)
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


class Secured(SecuredCluster):
    def client(self) -> dict[str, object]:
        return {
            "bootstrap.servers": self.bootstrap("SASL_SSL"),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.files.authority),
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": USERS["alice"],
            **QUIET,
        }

    def wait_until_all_are_known(self) -> None:
        def is_complete() -> bool:
            try:
                return len(AdminClient(self.client()).list_topics(timeout=5).brokers) == len(self.ids)
            except Exception:
                return False

        wait_until(is_complete, "all brokers are known", seen=self.seen)


@pytest.mark.parametrize(
    "between",
    [
        "SASL_SSL PLAIN",
        pytest.param("SASL_PLAINTEXT OAUTHBEARER", marks=pytest.mark.long),
        pytest.param("SSL", marks=pytest.mark.long),
    ],
)
def test_a_cluster_without_a_single_open_listener_works(tmp_path: Path, between: str) -> None:
    protocol, _, mechanism = between.partition(" ")
    settings: dict[str, object] = {
        "listener.security.protocol.map": ",".join((*PROTOCOLS, f"INTERNAL:{protocol}", f"CONTROLLER:{protocol}")),
        "sasl.mechanism.inter.broker.protocol": mechanism or "PLAIN",
        "sasl.mechanism.controller.protocol": mechanism or "PLAIN",
        "connections.max.reauth.ms": 10_000,
    }
    for name in ("external", "direct", "internal", "controller"):
        settings[f"listener.name.{name}.plain.sasl.jaas.config"] = f"{PLAIN_ENTRY};"
        settings[f"listener.name.{name}.oauthbearer.sasl.jaas.config"] = (
            f'{OAUTH} unsecuredLoginStringClaim_sub="broker";'
        )
        settings[f"listener.name.{name}.ssl.client.auth"] = "required" if protocol == "SSL" else "none"
    with Secured(tmp_path, brokers=3, settings=settings) as cluster:
        admin = AdminClient(cluster.client())
        admin.create_topics([NewTopic("t", 3, 3)])["t"].result(60)
        assert written(cluster, MESSAGES) == MESSAGES
        victim = cluster.ids[0]
        cluster.kill(victim)
        assert written(cluster, MESSAGES) == MESSAGES
        cluster.start(victim)
        cluster.wait_until_all_are_known()
        assert written(cluster, MESSAGES) == MESSAGES
        for listener in ("INTERNAL", "CONTROLLER"):
            stranger = None
            with pytest.raises(OSError):
                stranger = dial(
                    cluster.ports[2][listener], cluster.client_context() if protocol != "SASL_PLAINTEXT" else None
                )
                asks_as_a_stranger(stranger)


def asks_as_a_stranger(wire: Wire) -> None:
    wire.ask(ApiKey.DESCRIBE_CLUSTER, 0)


def written(cluster: Secured, count: int) -> int:
    acknowledged: list[object] = []
    producer = Producer({**cluster.client(), "acks": "all", "message.timeout.ms": 90_000})
    for number in range(count):
        producer.produce("t", b"x" * 100, partition=number % 3, on_delivery=lambda error, _: acknowledged.append(error))
    assert producer.flush(100) == 0
    assert [error for error in acknowledged if error is not None] == []
    return len(acknowledged)
