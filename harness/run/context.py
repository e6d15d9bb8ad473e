"""What all cells of one run share. Values only; made by the orchestrator."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path

from chaos.lease import Lease
from harness.run.generator.ceilings import Certification
from harness.run.hosts.store_copy import RunCopy
from harness.terminal.progress import Progress
from harness.terminal.signals import StopFlag
from runlog.files.clock import RunClock
from runlog.files.redaction import Redactor


def new_mark() -> str:
    """The beginning of every name that a run makes on a cluster: topics, groups, transactional ids. Each run has
    another one. Access control can permit the prefix `harness-`."""
    return f"harness-{secrets.token_hex(5)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    run_dir: Path
    clock: RunClock
    stop: StopFlag
    progress: Progress
    lease: Lease
    argv: tuple[str, ...]  # the command line, without secrets; empty if none began the run
    seed: int
    engine: str
    redactor: Redactor = field(default_factory=Redactor)  # everything that is written or shown goes through it
    web_port: int | None = None  # where Locust's own view of each cell is served
    mark: str = field(default_factory=new_mark)
    copy: RunCopy | None = None  # in a store that load hosts reach too
    certification: Certification = field(default_factory=Certification)  # grows until the first cell begins
