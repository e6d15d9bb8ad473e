"""What load hosts have of a cell whose harness died before it had gathered it.

Each named host ends its share, if that still runs, and hands over its spool as in any cell: in pieces, verified by
checksum, resumed where it broke off. Shown by tests/harness/test_harness_gather.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import gevent

from runlog.files.paths import live_directory
from runlog.records.hosts import NOT_HEARD, HostState, LoadHostRecord
from workloads.hosts import wire
from workloads.hosts.gather import Gatherer, gather_all
from workloads.hosts.registry import Host, Registry, Tell

STALL_S: Final = 60.0  # without a byte from a host: what it has stays there


class LateGathering:
    def __init__(
        self, run_dir: Path, cell: wire.OfCell, names: Sequence[str], *, registry: Registry, tell: Tell
    ) -> None:
        self._cell, self._registry, self._tell = cell, registry, tell
        live = live_directory(run_dir, cell.cell_id)
        self._gatherers = {name: Gatherer(cell, live, self._asker(name)) for name in names}

    def _asker(self, name: str) -> Callable[[wire.Message], None]:
        return lambda message: self._say(name, message)

    def _say(self, name: str, message: wire.Message) -> None:
        """To a host that is there. One that is not may come yet."""
        for host in self._registry.alive():
            if host.name == name:
                self._tell(host.client_id, message)

    def run(self, is_stopped: Callable[[], bool]) -> None:
        """Until all is here, or each host that has more gives nothing for a while."""
        gather_all(
            self._gatherers,
            stall_s=lambda _name: STALL_S,
            before_list=lambda name: self._say(name, wire.End()),
            is_stopped=is_stopped,
            sleep=gevent.sleep,
        )

    def on_message(self, host: Host, message: wire.Message) -> None:
        gatherer = self._gatherers.get(host.name)
        if gatherer is None or not isinstance(message, wire.OfCell) or message.cell != self._cell:
            return
        match message:
            case wire.FilesOfCell():
                gatherer.on_files(message)
            case wire.Chunk():
                gatherer.on_chunk(message)
            case wire.NoChunk():
                gatherer.on_no_chunk(message)

    def records(self) -> tuple[LoadHostRecord, ...]:
        """Of each host only what was gathered."""
        return tuple(
            LoadHostRecord(
                name=name,
                state=HostState.FAILED,
                reason=NOT_HEARD if gatherer.is_whole() else gatherer.problem or "it does not give its run log",
                files=gatherer.files,
                bytes=gatherer.bytes,
                is_gathered=gatherer.is_whole(),
            )
            for name, gatherer in self._gatherers.items()
        )

    @property
    def cell(self) -> wire.OfCell:
        return self._cell

    def whole(self) -> set[str]:
        return {name for name, gatherer in self._gatherers.items() if gatherer.is_whole()}
