"""`docker compose stop|start|logs kafka-N` for tests that call it, although their brokers run here without containers.

A program called docker in a directory of its own, first in the tests' PATH, sends its arguments through a Unix socket
to the process that owns the brokers. Anything else than the three is refused with exit code 1, in words.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import tempfile
import threading
from pathlib import Path

from tests.compatibility.world import World

STOP_TIMEOUT_S = 60.0  # compose gives a container ten seconds; a clean stop on a busy machine takes longer
_MESSAGE_BYTES_MAX = 65_536
_PROGRAM = """#!{python}
import json, socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect({path!r})
    connection.sendall(json.dumps(sys.argv[1:]).encode() + b"\\n")
    answer = json.loads(connection.makefile().read())
print(answer["text"])
sys.exit(answer["code"])
"""


class BrokerCommands:
    """`with BrokerCommands(world, directory) as commands`: `commands.programs` belongs first into PATH."""

    def __init__(self, world: World, directory: Path) -> None:
        self._world = world
        self.programs = directory / "programs"

    def __enter__(self) -> BrokerCommands:
        self._place = tempfile.TemporaryDirectory(prefix="docker-")  # a Unix socket's path must be short
        path = os.path.join(self._place.name, "s")
        self.programs.mkdir(exist_ok=True)
        program = self.programs / "docker"
        program.write_text(_PROGRAM.format(python=sys.executable, path=path))
        program.chmod(0o755)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(STOP_TIMEOUT_S)
        self._listener.close()
        self._place.cleanup()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed: that is the end
                return
            with connection:
                line = connection.makefile("rb").readline(_MESSAGE_BYTES_MAX)
                code, text = self._carry_out(json.loads(line))
                connection.sendall(json.dumps({"code": code, "text": text}).encode())

    def _carry_out(self, arguments: list[str]) -> tuple[int, str]:
        found = re.fullmatch(r"compose (stop|start|logs)(?: --since \S+)? kafka-(\d+)", " ".join(arguments))
        if found is None:
            return 1, f"stand-in for docker: only compose stop, start and logs of one broker, not {arguments}"
        command, broker = found[1], int(found[2])
        cluster = self._world.cluster
        if command == "logs":
            return 0, cluster.stderr(broker)
        if command == "start" and broker not in cluster.processes:
            cluster.start(broker)
        elif command == "stop" and broker in cluster.processes:
            code = cluster.terminate(broker, STOP_TIMEOUT_S)
            if code != 0:
                return 1, f"broker {broker} ended with exit code {code}"
        return 0, f"{command} kafka-{broker}"
