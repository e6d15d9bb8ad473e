"""A small launcher of real broker processes for tests: configuration, start, kill, restart, journals.

The harness has its own launcher (harness.clusters). This one exists so that the broker is tested without the harness.
Only the choice of free ports is shared.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from broker.door.clients import Admin, KafkaError, NewTopic, TimedOutError
from broker.wire.errors import ErrorCode
from harness.clusters.ports import PortAllocator
from tests.broker_node.broker_fork import ForkedBroker, start_broker
from tests.patience import QUIET_S, wait_process, wait_until

CLIENT_LISTENERS = ("EXTERNAL", "DIRECT")
LISTENERS = (*CLIENT_LISTENERS, "INTERNAL", "CONTROLLER")
# For clusters in which no broker is killed, and for a broker that is alone. A busy host that stops a broker for seconds
# must not have it fenced: leaders would change, and coordinators would load their state again. A broker that was killed
# must wait until its session is over. So a test that kills asks for less; SESSION_TIMEOUT_MS is our brokers' default.
PATIENT: Final = {"broker.session.timeout.ms": 30_000}
SESSION_TIMEOUT_MS: Final = 3_000


def make_topics(admin: Admin, *topics: NewTopic) -> None:
    """A broker that lost the controller's answer forwards the request again, as Apache Kafka does. On a busy host a
    topic can therefore exist already although nobody else made it, and an answer may come too late for the client."""
    try:
        admin.create_topics(topics)
    except KafkaError as error:
        if error.code not in (ErrorCode.topic_already_exists, ErrorCode.network_exception):
            raise
        names = [topic.name for topic in topics]
        wait_until(lambda: _all_led(admin, names), f"leaders of {names}")


def _all_led(admin: Admin, names: list[str]) -> bool:
    """The broker that is asked may not have heard of a topic yet that the controller has made already."""
    try:
        found = admin.describe_topics(names).values()
    except KafkaError as error:
        if error.code != ErrorCode.unknown_topic_or_partition:
            raise
        return False
    return all(each.partitions and all(one.leader >= 0 for one in each.partitions) for each in found)


class Cluster:
    """`with Cluster(tmp_path) as cluster: ...` starts the brokers and leaves no process behind."""

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 3,
        first_id: int = 1,
        settings: Mapping[str, object] | None = None,
        racks: Mapping[int, str] | None = None,
        internal_routes: Mapping[tuple[int, int], int] | None = None,
        has_faulty_disks: bool = False,  # see `break_disk`
        directories: int = 1,  # log directories of each broker
        listeners: Sequence[str] = LISTENERS,
        own_settings: Mapping[int, Mapping[str, object]] | None = None,  # of one broker
    ) -> None:
        self.directories, self.own_settings = directories, dict(own_settings or {})
        self.directory, self.has_faulty_disks = directory, has_faulty_disks
        self.ids = tuple(range(first_id, first_id + brokers))
        self.settings, self.racks = dict(settings or {}), dict(racks or {})
        self.internal_routes = dict(internal_routes or {})  # (i, j) -> port that i dials to reach j
        self.allocator = PortAllocator()
        self.ports = {broker: {name: self.allocator.take() for name in listeners} for broker in self.ids}
        self.processes: dict[int, subprocess.Popen[bytes] | ForkedBroker] = {}

    # -- files

    def log_dir(self, broker: int) -> Path:
        return self.directory / f"broker-{broker}"

    def log_dirs(self, broker: int) -> list[Path]:
        """The first one has the metadata log."""
        others = [self.directory / f"broker-{broker}-dir-{number}" for number in range(2, self.directories + 1)]
        return [self.log_dir(broker), *others]

    def journal(self, broker: int) -> list[dict[str, Any]]:
        path = self.directory / f"journal-{broker}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def stderr(self, broker: int) -> str:
        path = self.directory / f"stderr-{broker}.log"
        return path.read_text() if path.exists() else ""

    def properties(self, broker: int) -> dict[str, object]:
        ports = self.ports[broker]
        voters = ",".join(f"{each}@127.0.0.1:{self.ports[each]['CONTROLLER']}" for each in self.ids)
        properties: dict[str, object] = {
            "node.id": broker,
            "process.roles": "broker,controller",
            "controller.quorum.voters": voters,
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
            "inter.broker.listener.name": "INTERNAL",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": ",".join(map(str, self.log_dirs(broker))),
            "default.replication.factor": min(3, len(self.ids)),
            "harness.journal.path": self.directory / f"journal-{broker}.jsonl",
            "harness.journal.appends": "true",
            "log.initial.task.delay.ms": 3_600_000,  # tests write records of old times: no retention meanwhile
            **(PATIENT if len(self.ids) == 1 else {}),
            **self.settings,
            **self.own_settings.get(broker, {}),
        }
        routes = [f"{j}@127.0.0.1:{port}" for (i, j), port in self.internal_routes.items() if i == broker]
        if broker in self.racks:
            properties["broker.rack"] = self.racks[broker]
        if routes:
            properties["harness.routes.internal"] = ",".join(routes)
        if self.has_faulty_disks:
            properties["harness.disk.faults"] = self.disk_control(broker)
        return properties

    def write_properties(self, broker: int) -> Path:
        path = self.directory / f"broker-{broker}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.properties(broker).items()))
        return path

    # -- disks

    def disk_control(self, broker: int) -> Path:
        return self.directory / f"disk-{broker}.json"

    def break_disk(self, broker: int, **fault: object) -> None:
        """As broker/log/disk_faults.py has it: call, error, path."""
        path = self.disk_control(broker)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps({"faults": [fault]}))
        temporary.replace(path)

    def heal_disk(self, broker: int) -> None:
        self.disk_control(broker).unlink()

    # -- processes

    def command(self, properties: Path) -> list[str]:
        """What runs a broker with this file."""
        return [sys.executable, "-m", "broker.node", str(properties)]

    def start(self, broker: int) -> None:
        properties, log = self.write_properties(broker), self.directory / f"stderr-{broker}.log"
        environment = dict(os.environ, PYTHONPATH=str(Path(__file__).parents[2]))
        if type(self).command is Cluster.command:
            self.processes[broker] = start_broker(properties, log, environment)
            return
        with log.open("ab") as stderr:
            self.processes[broker] = subprocess.Popen(
                self.command(properties),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=environment,
            )

    def start_all(self) -> None:
        for broker in self.ids:
            self.start(broker)

    def kill(self, broker: int) -> None:
        process = self.processes.pop(broker)
        process.send_signal(signal.SIGKILL)
        process.wait(60)

    def terminate(self, broker: int, quiet_s: float = QUIET_S) -> int:
        """The exit code of a clean stop."""
        process = self.processes.pop(broker)
        process.send_signal(signal.SIGTERM)
        return wait_process(process, f"the end of broker {broker}", quiet_s, seen=self.seen)

    def seen(self) -> object:
        """For tests.patience: it changes while brokers write journals or print something. Their logs do not count: an
        idle Apache Kafka writes to its metadata log twice a second."""
        paths = (*self.directory.glob("journal-*.jsonl"), *self.directory.glob("stderr-*.log"))
        return {path.name: path.stat().st_size for path in paths}

    def wait_until_all_are_known(self) -> None:
        """Until each broker lists all of them: before that a topic of as many replicas cannot be made."""

        def is_complete(broker: int) -> bool:
            assert self.processes[broker].poll() is None, f"broker {broker} has ended: {self.stderr(broker)[-2000:]}"
            address = f"127.0.0.1:{self.ports[broker]['DIRECT']}"
            with Admin({"bootstrap.servers": address, "default.api.timeout.ms": 5_000}) as admin:
                try:
                    return len(admin.describe_cluster().brokers) == len(self.ids)
                except KafkaError as error:  # it does not listen yet, or a busy host lets it not answer in time
                    if not (error.retriable or isinstance(error, TimedOutError)):
                        raise
                    return False

        for broker in self.ids:
            wait_until(lambda broker=broker: is_complete(broker), f"broker {broker} knows all brokers", seen=self.seen)

    def __enter__(self) -> Cluster:
        self.start_all()
        try:
            self.wait_until_all_are_known()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait(60)
        self.processes.clear()

    # -- addresses

    def bootstrap(self, listener: str = "DIRECT") -> str:
        return ",".join(f"127.0.0.1:{self.ports[broker][listener]}" for broker in self.ids)

    # -- journals

    def events(self, kind: str) -> list[dict[str, Any]]:
        found = [event for broker in self.ids for event in self.journal(broker) if event["kind"] == kind]
        return sorted(found, key=lambda event: event["mono_ns"])

    def controller(self) -> int | None:
        """The last elected controller that runs."""
        alive = [event["broker"] for event in self.events("controller_elected") if event["broker"] in self.processes]
        return alive[-1] if alive else None
