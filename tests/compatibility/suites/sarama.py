"""sarama's functional tests: five brokers behind Toxiproxy at the addresses that are written into them.

They stop and start brokers, and read brokers' logs, by `docker compose`. A program called `docker` comes before the
real one in PATH and passes these three commands on to the brokers here (docker_stand_in.py). They skip what needs
Java's own programs in a broker's container when a Toxiproxy is given to them.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from chaos.toxiproxy.lookup import find_binary, start_real
from chaos.toxiproxy.states import ProxySpec
from harness.clusters.kafka.jars import cache_directory
from tests.broker_node.cluster_helper import Cluster
from tests.compatibility.clients import CannotPrepare
from tests.compatibility.suites.docker_stand_in import BrokerCommands
from tests.compatibility.suites.go import SOURCE, build_tests, module_version, run_go_test
from tests.compatibility.suites.suite import Attempt, Kind, Outcome, Suite
from tests.compatibility.world import SETTINGS, World

MODULE = "github.com/IBM/sarama"
BROKERS = 5
FIRST_PORT = 29_091  # of the five that the tests dial
KAFKA_VERSION = "4.3.1"
TEST_TIMEOUT_S = 240
_TEST = re.compile(r"^func (Test\w+)\(t \*testing\.T\)", re.MULTILINE)
# As the docker-compose.yml of the tests has them.
COMPOSE_SETTINGS = {
    "default.replication.factor": 2, "offsets.topic.replication.factor": 2, "delete.topic.enable": "true",
    "transaction.state.log.replication.factor": 2,
    "transaction.state.log.min.isr": 1,  # of the server.properties that comes with Kafka, which they begin with
}  # fmt: skip


class Sarama(Suite):
    name = "sarama's own tests"
    language = "Go"
    source = "the Go module github.com/IBM/sarama, build tag functional"

    def prepare(self) -> str:
        self._program = build_tests(MODULE, "sarama.test", tags="functional")
        binary = find_binary(None, [cache_directory() / "bin"])
        if binary is None:
            raise CannotPrepare("no Toxiproxy server: make setup builds it where Go is installed")
        self._toxiproxy = binary
        return module_version(MODULE)

    def tests(self) -> Sequence[str]:
        """Read from the source: the program lists its tests only once it has brokers."""
        files = sorted(_module_directory().glob("functional_*_test.go"))
        return [name for file in files for name in _TEST.findall(file.read_text())]

    @contextmanager
    def opened(self, directory: Path, kind: Kind) -> Iterator[Attempt]:
        directory.mkdir(parents=True)
        cluster = kind(
            directory, brokers=BROKERS, settings={**SETTINGS, **COMPOSE_SETTINGS},
            own_settings={
                broker: {"advertised.listeners": f"EXTERNAL://{_proxy_of(broker)}", "broker.rack": broker}
                for broker in range(1, BROKERS + 1)
            },
        )  # fmt: skip
        with World(directory, cluster=cluster) as world, BrokerCommands(world, directory) as commands:
            path = f"{commands.programs}{os.pathsep}{os.environ['PATH']}"

            def attempt(test: str) -> Outcome:
                with self._proxies(cluster, directory) as address:
                    environment = {"TOXIPROXY_ADDR": address, "KAFKA_VERSION": KAFKA_VERSION, "PATH": path}
                    outcome = run_go_test(self._program, test, directory, environment, timeout_s=TEST_TIMEOUT_S)
                world.whole_again()
                return outcome

            yield attempt

    @contextmanager
    def _proxies(self, cluster: Cluster, directory: Path) -> Iterator[str]:
        """The address of a Toxiproxy for one test. Two clusters beside each other take turns in having it, because
        the addresses of the proxies are fixed."""
        with ExitStack() as stack:
            server = start_real(self._toxiproxy, log_path=directory / "toxiproxy.log")
            stack.callback(server.stop)
            client = server.client()
            stack.callback(client.close)
            client.populate([
                ProxySpec(
                    name=f"kafka{broker}", listen=_proxy_of(broker),
                    upstream=f"127.0.0.1:{cluster.ports[broker]['EXTERNAL']}",
                )
                for broker in cluster.ids
            ])  # fmt: skip
            yield server.url


def _proxy_of(broker: int) -> str:
    return f"127.0.0.1:{FIRST_PORT + broker - 1}"


def _module_directory() -> Path:
    done = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", MODULE],
        cwd=SOURCE,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return Path(done.stdout.strip())
