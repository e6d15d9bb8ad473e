"""One real reference broker on loopback for tests of the load, with topics made on demand or with a configuration."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from broker.door.clients import Admin, KafkaError, NewTopic
from harness.clusters.ports import PortAllocator

PARTITIONS = 4


class ReferenceBroker:
    """`stop` ends it. Topics have four partitions."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None, *, host: str = "127.0.0.1") -> None:
        self._allocator = PortAllocator()
        ports = [self._allocator.take() for _ in range(3)]
        self.address = f"{host}:{ports[0]}"
        listeners = zip(("EXTERNAL", "INTERNAL", "CONTROLLER"), ports, strict=True)
        properties = {
            "node.id": "1",
            "process.roles": "broker,controller",
            "controller.quorum.voters": f"1@{host}:{ports[2]}",
            "listeners": ",".join(f"{name}://{host}:{port}" for name, port in listeners),
            "inter.broker.listener.name": "INTERNAL",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(directory / "log"),
            "num.partitions": str(PARTITIONS),
            **(settings or {}),
        }
        file = directory / "broker.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        with (directory / "broker.stderr").open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "broker.node", str(file)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr, cwd=os.getcwd(),
            )  # fmt: skip
        self._admin = Admin({"bootstrap.servers": self.address})
        deadline_s = time.monotonic() + 120
        while True:
            try:
                assert len(self._admin.describe_cluster().brokers) == 1
                return
            except (KafkaError, AssertionError):
                assert time.monotonic() < deadline_s, (directory / "broker.stderr").read_text()
                time.sleep(0.05)

    def create_topics(self, *names: str, config: Mapping[str, str] | None = None) -> None:
        self._admin.create_topics([NewTopic(name, PARTITIONS, 1, dict(config or {})) for name in names])

    def stop(self) -> None:
        self._admin.close()
        self.process.kill()
        self.process.wait(timeout=60)
