"""Prepares the disk before a node starts: its files, its page of faults, and what Kafka's own tools write."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from chaos.interposer import fault_page
from harness.clusters.base import NodeLayout
from harness.errors import EnvironmentFault

_OF_RELEASE: Final = frozenset({"advertised.listeners"})  # differs between releases
PREPARE_TIMEOUT_S: Final = 60.0
_AT_A_TIME: Final = 2  # each is a JVM of its own


def write_node_files(nodes: Iterable[NodeLayout]) -> None:
    for node in nodes:
        node.directory.mkdir(parents=True, exist_ok=True)
        for path, text in node.files.items():
            path.write_text(text)
        if node.fault_page is not None:
            fault_page.create(node.fault_page, node.storage.data)


def rewrite_properties(node: NodeLayout) -> None:
    """In the file that the broker reads, what differs between releases becomes what `node.properties` says now. Other
    lines stay: with made-up access they hold passwords, which are in no layout."""
    path = Path(node.command[-1])
    lines = []
    for line in path.read_text().splitlines():
        key, _, value = line.partition("=")
        lines.append(f"{key}={node.properties.get(key, value)}" if key in _OF_RELEASE else line)
    path.write_text("\n".join(lines) + "\n")


def run_preparations(nodes: Iterable[NodeLayout]) -> None:
    """EnvironmentFault with the last words of a command that fails."""
    commands = [command for node in nodes for command in node.prepare_commands]
    if not commands:
        return
    with ThreadPoolExecutor(max_workers=_AT_A_TIME) as pool:
        for done in pool.map(_run, commands):
            if done.returncode != 0:
                tail = "\n".join((done.stdout + done.stderr).splitlines()[-6:])
                raise EnvironmentFault(f"{' '.join(done.args[-5:])} ended with {done.returncode}:\n{tail}")


def _run(command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=PREPARE_TIMEOUT_S, stdin=subprocess.DEVNULL)
