"""Holes: parts of a cell's evidence that nobody recorded, gathered or can read. A closed set of kinds.

Whoever learns of a hole writes it as a `Hole` into the outcome of the cell
(`harness.run.directory.outcome.Outcome.miss`), or finds it in the files (`reports.evidence.holes`). What rests on each
kind stands in one table, `reports.judge.holes`. A kind without a row there fails tests/reports/test_reports_holes.py.
A note of a cell (`outcome.notes`) says what was unusual and is no hole: no verdict rests on it.

A new kind needs a line here and one in `TOUCHES` of `reports.judge.holes`. Then write docs/reference/lawful.md anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class HoleKind(StrEnum):
    """What has a hole. The first value is the default: a hole of a kind that is not known may be anywhere."""

    UNKNOWN = "unknown"  # a note of an older run, or a kind of a newer version
    # recorders of the harness that stopped, or of which a part is missing
    JOURNALS = "journals"  # copies of the brokers' journals
    LEADERS = "leaders"  # They are who leads, and who is in the ISR, as Metadata tells it.
    HIGH_WATERMARKS = "high_watermarks"  # end offsets that consumers are shown
    PROCESS_ENDS = "process_ends"  # brokers whose process ended
    REQUESTS = "requests"  # what clients' proxies saw: the wire log
    SAMPLES = "samples"  # CPU and memory of host and brokers
    HISTORY = "history"  # Members write it, about groups and transactions.
    FAULTS = "faults"  # when each fault was applied, proved and healed
    # questions after the load that nobody answered
    DEAD_LOGS = "dead_logs"  # what the log of a dead broker had, or where its epoch ends at its successor
    DEPOSED_LEADERS = "deposed_leaders"  # what a leader answered after it had been replaced
    REPLICAS = "replicas"  # whether the replicas are the same
    FINAL_READ = "final_read"  # the topic was not read to its end
    # hosts
    LOAD_HOST = "load_host"  # its run log did not come, or ends in the middle
    # files: missing, torn, damaged, or with too few rows
    CELL_FILE = "cell_file"  # cell.json, which also lists all others
    CLUSTER_FILE = "cluster_file"
    FAULTS_FILE = "faults_file"
    HISTORY_FILE = "history_file"
    STATS_FILE = "stats_file"
    WIRE_FILE = "wire_file"
    SEND_ROWS = "send_rows"
    RECV_ROWS = "recv_rows"
    LOG_ROWS = "log_rows"
    BATCHES_ROWS = "batches_rows"
    COPIES_ROWS = "copies_rows"
    AUDIT_ROWS = "audit_rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    kind: HoleKind
    what: str  # a sentence without an end: what is missing, and why
    where: str = ""  # the broker, host, partition or file that it concerns; empty: no single one
    # Of a hole in sends: numbers of the only producers that it concerns. Empty: it may concern all.
    producers: tuple[int, ...] = ()

    def text(self) -> str:
        """For people: the place, then what is missing there."""
        return f"{self.where}: {self.what}" if self.where and not self.what.startswith(self.where) else self.what
