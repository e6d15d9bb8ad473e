"""What all cells of one run share. Values only; made by the orchestrator."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from chaos.lease import Lease
from harness.run.certificates import Certification
from harness.run.progress import Progress
from harness.run.stop import StopFlag
from runlog.events import RunClock


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    run_dir: Path
    clock: RunClock
    stop: StopFlag
    progress: Progress
    lease: Lease
    command: str
    engine: str
    web_port: int | None = None  # where Locust's own view of each cell is served
    certification: Certification = field(default_factory=Certification)  # grows until the first cell begins
