"""An operator of a fault host in tests. The brokers are `sleep` processes that a script starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from chaos.fault_host.host import FaultHost
from chaos.fault_host.journal import Journal
from chaos.fault_host.permits import parse_permits
from chaos.process_identity import ProcessIdentity, read_identity
from tests.patience import wait_until

WAIT_S = 60.0
NAME = "sleep 86321"  # in the command line of each


def _is_broker(pid: int) -> bool:
    command = Path(f"/proc/{pid}/cmdline")
    return command.exists() and command.read_bytes().replace(b"\0", b" ").startswith(NAME.encode())


class Operator:
    """Whoever runs the brokers of this host, and wrote its list."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.said: list[str] = []
        self.script = directory / "start.sh"
        self.script.write_text(
            f"#!/bin/sh\n{NAME} >/dev/null 2>&1 &\n"
            f'echo $! > {directory}/pid.new\nmv {directory}/pid.new {directory}/pid-"$1"\n'
        )
        self.script.chmod(0o755)
        self._seen: set[int] = set()
        self._host: FaultHost | None = None
        self._journal: Journal | None = None

    def start(self, broker: int) -> ProcessIdentity:
        subprocess.run([self.script, str(broker)], check=True, timeout=WAIT_S)
        found = self.broker(broker)
        # The script does not wait for it: until then its child is a second shell, with the script's own command line.
        wait_until(lambda: _is_broker(found.pid), f"broker {broker} runs its own program")
        return found

    def broker(self, broker: int) -> ProcessIdentity:
        pid = int((self.directory / f"pid-{broker}").read_text())
        self._seen.add(pid)
        found = read_identity(pid)
        assert found is not None
        return found

    def broker_or_none(self, broker: int) -> ProcessIdentity | None:
        return read_identity(int((self.directory / f"pid-{broker}").read_text()))

    def permits(
        self, *, allow: str = "kill, terminate, pause", more: str = "", brokers: tuple[int, ...] = (1, 2)
    ) -> str:
        return "lost_after: 2s\nbrokers:\n" + "".join(
            f"  {broker}:\n"
            f"    process: {{pid_file: {self.directory}/pid-{broker}, command_has: {NAME}}}\n"
            f"    allow: [{allow}]\n"
            f"    start: [{self.script}, '{broker}']\n{more}"
            for broker in brokers
        )

    def worker(self, text: str | None = None) -> FaultHost:
        """As it is after its start. The one before is gone, as after SIGKILL."""
        self.forget_worker()
        self._journal = Journal(self.directory / "leases", "here")
        self._host = FaultHost(
            parse_permits(text or self.permits()), self._journal, output=self.directory,
            read_epochs=lambda path: [(3, 0, len(path.name))], say=self.said.append,
        )  # fmt: skip
        self._host.heal_left()
        self._host.begin_run("run-1")
        return self._host

    def forget_worker(self) -> None:
        """It is gone, as after SIGKILL: its leases stay, and nothing is healed."""
        if self._journal is not None:
            self._journal.close()

    def leases(self) -> list[dict[str, object]]:
        path = self.directory / "leases" / "here.json"
        found: list[dict[str, object]] = json.loads(path.read_text())["held"] if path.exists() else []
        return found

    def clean(self) -> None:
        if self._journal is not None:
            self._journal.close()
        for path in self.directory.glob("pid-*"):
            self._seen.add(int(path.read_text()))
        for pid in self._seen:
            if _is_broker(pid):
                os.kill(pid, signal.SIGKILL)
