"""The analysis as a process: `python -m reports`, begun at once, or made ready while a run still ends.

Knows its arguments and nothing of what it finds. Shown by tests/harness/test_harness_reporting.py and
test_harness_analysis_ahead.py.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.clusters.broker_process import ManagedProcess, spawn
from harness.run.report.spark_choice import SparkChoice
from reports.render.publication import new_analysis_id

_ANALYSIS: Final = (sys.executable, "-m", "reports")
BEGIN: Final = "begin"  # what one with --wait waits for on its stdin
_STOP_S: Final = 1.0
# A JVM of the analysis takes up to 1.5 GB beside the brokers, which before nobody needed at the same time.
AHEAD_KIB_MIN: Final = 3 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """One that was started. What is at `stderr_path` is its own."""

    id: str
    process: ManagedProcess
    stderr_path: Path

    @classmethod
    def begun(
        cls,
        run_dir: Path,
        spark: SparkChoice,
        allow: Path | None,
        store: str | None = None,
    ) -> Analysis:
        """It analyses the run directory as it is. `store`: where the run log is read, in place."""
        analysis_id, stderr_path, arguments = _new(run_dir, allow)
        arguments += ["--store", store] if store else []
        process = start("analysis", arguments, spark, stderr_path)
        return cls(id=analysis_id, process=process, stderr_path=stderr_path)

    @classmethod
    def waiting(cls, run_dir: Path, spark: SparkChoice, allow: Path | None) -> Analysis:
        """It starts Spark, and reads the run directory when it is told to begin."""
        analysis_id, stderr_path, arguments = _new(run_dir, allow)
        command = [*_ANALYSIS, *arguments, "--wait", *spark.arguments()]
        process = spawn("analysis", command, stderr_path=stderr_path, stdin_pipe=True)
        analysis = cls(id=analysis_id, process=process, stderr_path=stderr_path)
        if spark.master:
            analysis.say(spark.master)
        return analysis

    def say(self, line: str) -> bool:
        """Whether the process still has a stdin to take it."""
        stdin = self.process.popen.stdin
        assert stdin is not None, "only one that waits is spoken to"
        try:
            stdin.write(f"{line}\n".encode())
            stdin.flush()
        except (OSError, ValueError):  # ValueError: closed by us
            return False
        return True

    def drop(self) -> None:
        """Ends it, and takes away what it wrote."""
        stdin = self.process.popen.stdin
        if stdin is not None:
            with contextlib.suppress(OSError):
                stdin.close()
        self.process.stop(_STOP_S)
        with contextlib.suppress(OSError):
            self.stderr_path.unlink()


def _new(run_dir: Path, allow: Path | None) -> tuple[str, Path, list[str]]:
    analysis_id = new_analysis_id()
    arguments = [str(run_dir), "--analysis-id", analysis_id, *(["--allow", str(allow.resolve())] if allow else [])]
    return analysis_id, run_dir / f"report.{analysis_id}.stderr.log", arguments


def start(name: str, arguments: Sequence[str], spark: SparkChoice, stderr_path: Path) -> ManagedProcess:
    command = [*_ANALYSIS, *arguments, *spark.arguments()]
    return spawn(name, command, stderr_path=stderr_path, stdin=spark.master.encode() if spark.master else None)


class AnalysisAhead:
    """Starts Spark when the last load of a run has ended, beside the final read and the end of the cluster.

    Nothing is measured then. It is only a help: whatever fails here, the analysis is started as without it.
    """

    def __init__(self, run_dir: Path, spark: SparkChoice, allow: Path | None) -> None:
        self._run_dir, self._spark, self._allow = run_dir, spark, allow
        self._waiting: Analysis | None = None

    def start(self) -> None:
        """Unless one waits already, or memory is short."""
        if self._waiting is not None or available_kib() < AHEAD_KIB_MIN:
            return
        with contextlib.suppress(OSError, TimeoutError):  # no process can be started: the analysis itself will say so
            self._waiting = Analysis.waiting(self._run_dir, self._spark, self._allow)

    def begin(self) -> Analysis | None:
        """The one that waits, which begins now. None if there is none, or if it has ended."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return None
        if waiting.process.is_running() and waiting.say(BEGIN):
            return waiting
        waiting.drop()
        return None

    def cancel(self) -> None:
        """Something is measured again, or no analysis is wanted any more."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.drop()


def available_kib(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Memory that a new program can have. 0 where the system does not say."""
    with contextlib.suppress(OSError, ValueError):
        for line in meminfo.read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "MemAvailable":
                return int(value.split()[0])
    return 0
