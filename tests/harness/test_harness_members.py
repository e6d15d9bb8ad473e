"""Member processes as the harness starts them: who they are in the run log, what is said when one does not start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from chaos.lease import Lease
from harness.cli.load.chaos_suites import chaos_suite
from harness.errors import CellError
from harness.plan import build_plan
from harness.planned_cell import PlannedCell
from harness.run.cells.members import MemberProcesses, _specs, committed_ahead
from harness.run.context import RunContext
from harness.scenarios import cases_of
from harness.terminal.progress import Progress
from harness.terminal.signals import StopFlag
from runlog.files.clock import RunClock
from workloads.members.journal import MemberJournal
from workloads.model import Workload

NOBODY = "127.0.0.1:1"


COPYING = Workload.model_validate(
    {
        "rate_per_s": 100,
        "readers": [
            {"name": "copier", "consumers": 2, "mode": "group", "own_processes": True, "copies": True},
            {"name": "audit", "mode": "group", "own_processes": True, "reads": "copies"},
        ],
    }
)


def planned(scenario: str, client: str, workload: Workload | None = None) -> PlannedCell:
    cell = build_plan(chaos_suite([scenario], [], []), cases_of, seed=7, client=client)[0]
    cell = cell.marked("harness-1")
    return cell if workload is None else replace(cell, workload=workload)


def context_of(directory: Path) -> RunContext:
    return RunContext(
        run_dir=directory, clock=RunClock.starting_now(), stop=StopFlag(), progress=Progress(1),
        lease=Lease(directory / "leases"), argv=(), seed=1, engine="reference",
    )  # fmt: skip


def members(directory: Path, scenario: str, client: str, workload: Workload | None = None) -> MemberProcesses:
    return MemberProcesses(planned(scenario, client, workload), context_of(directory), NOBODY)


def test_members_are_named_by_reader_and_number(tmp_path: Path) -> None:
    assert members(tmp_path, "consumer-kill", "confluent").names() == ("app-0", "app-1", "app-2")
    copying = members(tmp_path, "consumer-kill", "confluent", COPYING)
    assert copying.names() == ("copier-0", "copier-1", "audit-0")
    assert copying.are_there
    assert not members(tmp_path, "leader-kill", "reference").are_there


def test_auditors_read_committed_copies_whatever_their_clients_default_is() -> None:
    cell = planned("consumer-kill", "java", COPYING)
    by_member = {spec.member: dict(spec.properties) for spec in _specs(cell, NOBODY, {})}
    assert by_member["audit-0"] == {"isolation.level": "read_committed"}
    assert by_member["copier-0"] == {}


def test_a_client_that_is_no_copier_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CellError, match="aiokafka is no transactional copier; reference, confluent, java are"):
        members(tmp_path, "consumer-kill", "aiokafka", COPYING)


def test_what_lies_between_commit_and_work_stands_in_the_journal(tmp_path: Path) -> None:
    journal = MemberJournal(tmp_path / "app-0.jsonl")

    def delivered(partition: int, *offsets: int) -> None:
        journal.delivered([("t", partition, offset, b"", 0) for offset in offsets], 0)

    def ahead() -> int:
        return committed_ahead(tmp_path / "app-0.jsonl")

    journal.committed({("t", 0): 30, ("t", 1): 500})
    assert ahead() == 0  # where it began is not known
    delivered(0, 10, 11, 12)
    assert ahead() == 17
    delivered(0, *range(13, 30))
    delivered(1, 498)
    assert ahead() == 1
    journal.revoked([("t", 1)])
    assert ahead() == 0
    journal.close()


@pytest.mark.slow
def test_a_member_that_does_not_start_ends_the_cell_with_its_words(tmp_path: Path) -> None:
    processes = members(tmp_path, "consumer-kill", "aiokafka")
    try:
        with pytest.raises(CellError, match=r"member app-. did not start: ClientError: client aiokafka: not connected"):
            processes.start()
    finally:
        assert processes.finish() == 0
    assert processes.pids() == {}
