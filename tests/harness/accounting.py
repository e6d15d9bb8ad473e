"""Every record of a run, from its files alone: what was sent, what became of it, and what the log has.

Shares no code with the analysis. For tests that do something to a run while it goes on.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from runlog.streams.schema import SendStatus

Identity = tuple[int, int, int]  # producer, incarnation, seq


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Of one cell."""

    sends: dict[Identity, SendStatus]
    log: Counter[Identity]
    outcome: dict[str, Any]

    @property
    def is_whole(self) -> bool:
        """Whether nothing of the run log is known to be missing: of its rows, and of its load hosts."""
        kinds = {hole["kind"] for hole in self.outcome["holes"] or ()}
        return not kinds & {"send_rows", "load_host"} and all(
            host["is_gathered"] for host in self.outcome["load_hosts"] or ()
        )

    def counts(self) -> str:
        found = Counter(self.sends.values())
        return f"{len(self.sends)} sent = " + " + ".join(f"{found[each]} {each.name.lower()}" for each in SendStatus)


def account_of(run_dir: Path) -> Account:
    """Of the only cell. An identity that has two outcomes is an AssertionError."""
    (path,) = run_dir.glob("cells/*/cell.json")
    sends: dict[Identity, SendStatus] = {}
    for row in _rows(run_dir, "send", ["producer", "incarnation", "seq", "status"]):
        identity = row["producer"], row["incarnation"], row["seq"]
        assert identity not in sends, f"{identity} has two outcomes"
        sends[identity] = SendStatus(row["status"])
    log = Counter(
        (row["producer"], row["incarnation"], row["seq"])
        for row in _rows(run_dir, "log", ["producer", "incarnation", "seq"])
    )
    return Account(sends=sends, log=log, outcome=json.loads(path.read_text())["outcome"])


def _rows(run_dir: Path, stream: str, columns: list[str]) -> list[dict[str, Any]]:
    return [
        row
        for path in sorted(run_dir.glob(f"{stream}/cell=*/*.parquet"))
        for row in pq.read_table(path, columns=columns, partitioning=None).to_pylist()
    ]


def assert_accounted_for(account: Account) -> None:
    """Nothing that was acknowledged is missing, nothing is there twice or although it failed. If nothing is known to be
    missing of the run log, it has an outcome for every record that was sent, and for every one that the log has."""
    outcome, sends, log = account.outcome, account.sends, account.log
    final_read = outcome.get("final_read") or {}
    if final_read.get("complete"):
        lost = [identity for identity, status in sends.items() if status is SendStatus.ACKED and identity not in log]
        assert not lost, f"acknowledged and not in the log: {lost[:5]}"
        assert log.total() == final_read["records"]
    failed = [identity for identity, status in sends.items() if status is SendStatus.FAILED and identity in log]
    assert not failed, f"called failed, and in the log: {failed[:5]}"
    assert not (twice := [identity for identity, count in log.items() if count > 1]), f"duplicates: {twice[:5]}"
    if not account.is_whole:
        return
    unknown = sorted(set(log) - set(sends))
    assert not unknown, f"in the log, and not in the run log, of which nothing is missing: {unknown[:5]}"
    for (producer, incarnation), count in Counter((each[0], each[1]) for each in sends).items():
        last = max(seq for *whose, seq in sends if whose == [producer, incarnation])
        assert count == last + 1, f"producer {producer}: outcomes of {count} sends, the last has the number {last}"
    for each in outcome["producers"] or ():
        wanted = (each["producer"], each["incarnation"], each["high_seq"])
        assert each["high_seq"] < 0 or wanted in sends, f"the last send {wanted} has no outcome"
