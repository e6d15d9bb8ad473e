"""What a container of the image does, by its first argument; any other argument is a `harness` command line.

broker ID PORT   broker ID of three; PORT is where this host publishes its client listener
kafka ID PORT    the same, Apache Kafka from the jars mounted at /opt/kafka/libs
toxiproxy        the embedded Toxiproxy server, with a proxy before each broker (ports 19101.., Apache Kafka 29101..)
report-latest    analyse the newest run below ./runs

A harness command line waits until the brokers answer that WAIT_FOR names (addresses of the bootstrap list), because the
containers of a composition start together. It does not wait without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from chaos.toxiproxy.calls import Unreachable
from chaos.toxiproxy.client import ToxiproxyClient
from chaos.toxiproxy.states import ProxySpec

BROKERS: Final = (1, 2, 3)
DATA: Final = Path("/var/lib/kafka-harness")
KAFKA_LIBS: Final = Path("/opt/kafka/libs")
# The containers find one another by service name; a client on this host uses the published port.
# PROXIED is advertised as the Toxiproxy server's address: whoever comes in through it stays on it.
PORTS: Final = {"EXTERNAL": 9092, "CONTROLLER": 9093, "INTERNAL": 9094, "PROXIED": 9095}
PROXIES_TIMEOUT_S: Final = 60  # half a second on an idle host; several containers start at once
CLUSTER_TIMEOUT_S: Final = 120  # two seconds on an idle host
ANSWER_TIMEOUT_S: Final = 5.0
FIRST_PROXY: Final = {"broker": 19101, "kafka": 29101}
SETTINGS: Final = {
    "num.partitions": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "1",
    "auto.create.topics.enable": "true",
    "unclean.leader.election.enable": "false",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
}
# 22 base64 characters, the same for all nodes of this composition.
KAFKA_CLUSTER_ID: Final = "Hkafka0harness0compose"


def properties(service: str, broker: int, published_port: int) -> dict[str, str]:
    return {
        **SETTINGS,
        "node.id": str(broker),
        "process.roles": "broker,controller",
        "controller.quorum.voters": ",".join(f"{peer}@{service}-{peer}:{PORTS['CONTROLLER']}" for peer in BROKERS),
        "listeners": ",".join(f"{name}://0.0.0.0:{port}" for name, port in PORTS.items()),
        "advertised.listeners": f"EXTERNAL://127.0.0.1:{published_port},INTERNAL://{service}-{broker}:{PORTS['INTERNAL']},"
        f"PROXIED://toxiproxy:{FIRST_PROXY[service] + broker - 1}",
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in PORTS),
        "inter.broker.listener.name": "INTERNAL",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(DATA / "data"),
    } | environment_settings()


def environment_settings() -> dict[str, str]:
    """KAFKA_NUM_PARTITIONS=4 sets num.partitions=4, as in other Kafka images."""
    own = {name: value for name, value in os.environ.items() if name.startswith("KAFKA_")}
    return {name.removeprefix("KAFKA_").lower().replace("_", "."): value for name, value in own.items()}


def write(settings: dict[str, str]) -> Path:
    DATA.mkdir(parents=True, exist_ok=True)
    path = DATA / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


def command(arguments: list[str]) -> list[str]:
    """The program that takes this one's place."""
    if arguments[:1] == ["broker"]:
        # All addresses of the container; the composition publishes them on the host's loopback only.
        settings = {"harness.allow.remote": "true"} | properties("broker", *ids(arguments))
        return [sys.executable, "-m", "broker.node", str(write(settings))]
    if arguments[:1] == ["kafka"]:
        return kafka(write(properties("kafka", *ids(arguments))))
    if arguments == ["toxiproxy"]:
        start_populating()
        return [sys.executable, "-m", "chaos.toxiproxy.server", "--strict", "--host", "0.0.0.0"]
    require_runs()
    if arguments == ["report-latest"]:
        return [sys.executable, "-m", "harness", "report", str(latest_run())]
    if wanted := os.environ.get("WAIT_FOR"):
        wait_for(wanted, brokers=len(BROKERS), timeout_s=CLUSTER_TIMEOUT_S)
    return [sys.executable, "-m", "harness", *arguments]


def require_runs() -> None:
    """What is mounted at ./runs belongs to a user of the host, and this container may have been started as another."""
    runs = Path("runs")
    if runs.is_dir() and not os.access(runs, os.R_OK | os.W_OK | os.X_OK):
        owner = runs.stat()
        sys.exit(
            f"{runs.resolve()} belongs to user {owner.st_uid}, and this container runs as {os.geteuid()}: start it "
            f"with --user {owner.st_uid}:{owner.st_gid} (Compose: HARNESS_USER={owner.st_uid}:{owner.st_gid})"
        )


def wait_for(bootstrap: str, *, brokers: int, timeout_s: float) -> bool:
    """Until one of them names that many brokers. False: nobody did in that time, or these are no addresses. The program
    that follows says what is wrong."""
    # Not at the top: brokers start without them.
    from harness.clusters.external import parse_bootstrap
    from harness.clusters.requests.probe import BrokerProbe
    from harness.errors import UsageError

    try:
        addresses = parse_bootstrap(bootstrap)
    except UsageError:
        return False
    deadline = time.monotonic() + timeout_s
    while True:
        for address in addresses:
            with BrokerProbe(address, timeout_s=min(timeout_s, ANSWER_TIMEOUT_S)) as probe:
                if len(probe.broker_addresses() or ()) >= brokers:
                    return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.1)


def start_populating() -> None:
    """A child that makes the proxies as soon as the server, which takes this process' place, answers."""
    if os.fork():
        return
    client = ToxiproxyClient("http://127.0.0.1:8474")
    proxies = [
        ProxySpec(
            name=f"{service}-{broker}",
            listen=f"0.0.0.0:{first + broker - 1}",
            upstream=f"{service}-{broker}:{PORTS['PROXIED']}",
        )
        for service, first in FIRST_PROXY.items()
        for broker in BROKERS
    ]
    deadline = time.monotonic() + PROXIES_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            client.populate(proxies)
            os._exit(0)
        except Unreachable:
            time.sleep(0.1)
    print(f"the Toxiproxy server did not answer within {PROXIES_TIMEOUT_S} s", file=sys.stderr)
    os._exit(3)


def latest_run() -> Path:
    runs = [path.parent for path in Path("runs").glob("*/manifest.json")]
    if not runs:
        sys.exit("no run below ./runs")
    return max(runs, key=lambda run: (run / "manifest.json").stat().st_mtime)


def ids(arguments: list[str]) -> tuple[int, int]:
    try:
        _, broker, port = arguments
        return int(broker), int(port)
    except ValueError:
        sys.exit(f"expected {arguments[0]} ID PORT, got {' '.join(arguments)}")


def kafka(path: Path) -> list[str]:
    if not any(KAFKA_LIBS.glob("kafka-clients-*.jar")):
        sys.exit(
            f"no Apache Kafka jars in {KAFKA_LIBS}: mount a directory that holds them (`make setup-dev` fetches them)"
        )
    java = ["java", "-Xmx512m", "-cp", f"{KAFKA_LIBS}/*"]
    if not (DATA / "data" / "meta.properties").exists():
        tool = ["kafka.tools.StorageTool", "format", "--cluster-id", KAFKA_CLUSTER_ID, "--config", str(path)]
        subprocess.run([*java, *tool], check=True, timeout=120)
    return [*java, "kafka.Kafka", str(path)]


if __name__ == "__main__":
    program = command(sys.argv[1:])
    os.execvp(program[0], program)
