"""What we did is not the cluster's fault: a heal of ours that failed, or a full disk of ours, makes a cell
inconclusive, with the reason."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from chaos.process_identity import ProcessIdentity
from harness.clusters.broker_hosts import HostFaultCluster
from harness.clusters.hosts.host_answers import HostAnswer, HostFaultError
from harness.run.directory.outcome import Outcome, is_carried_out
from runlog.records.cell import CellAnomaly, CellStatus
from runlog.records.hosts import HostState, LoadHostRecord

IDENTITY = ProcessIdentity(pid=7, start_ticks=70)


def test_an_anomaly_after_a_heal_that_failed_is_none() -> None:
    outcome = Outcome(0)
    outcome.end(CellStatus.FAILED, "the cluster did not get healthy again", CellAnomaly.NO_RECOVERY)
    outcome.blame_us("a heal of ours failed (healing still failed: fault host host-2 was not heard of for 10 s)")
    assert outcome.record.anomaly is CellAnomaly.NONE
    assert outcome.record.status is CellStatus.FAILED
    assert outcome.record.reason.startswith("a heal of ours failed (healing still failed: fault host host-2")
    assert outcome.record.reason.endswith("then the cluster did not get healthy again")


def test_without_an_anomaly_the_reason_stays() -> None:
    outcome = Outcome(0)
    outcome.end(CellStatus.FAILED, "the fault timeline failed: stopped")
    outcome.blame_us("a heal of ours failed")
    assert outcome.record.reason == "the fault timeline failed: stopped"


class Hosts:
    """A worker that is lost from `is_lost` on."""

    def __init__(self) -> None:
        self.is_lost = False
        self.asked: list[str] = []

    def act(self, action: str, broker_id: int, *, topic: str = "", partitions: int = 0) -> HostAnswer:
        self.asked.append(f"{action} {broker_id}")
        if self.is_lost:
            raise HostFaultError("fault host host-1 was not heard of for 10 s", is_certain=False)
        return HostAnswer(
            host="host-1", asked_us=0, answered_us=0, from_us=0, to_us=0, clock_error_us=1.0, running=IDENTITY
        )

    def host_of(self, broker_id: int) -> str:
        return f"host-{broker_id}"

    def proxies(self) -> tuple[()]:
        return ()


@pytest.mark.parametrize(("breaks", "mends"), [("pause", "resume"), ("terminate", "restart")])
def test_what_a_lost_worker_did_not_mend_is_asked_for_again(breaks: str, mends: str) -> None:
    hosts = Hosts()
    cluster = HostFaultCluster("127.0.0.1:1", hosts, security=None, proxies=None)  # type: ignore[arg-type]
    getattr(cluster, breaks)(1)
    hosts.is_lost = True
    for _ in range(2):  # no second try tells that it was healed
        with pytest.raises(HostFaultError, match="not heard of"):
            getattr(cluster, mends)(1)
    hosts.is_lost = False
    cluster.ensure_all_running()
    asked = len(hosts.asked)
    cluster.ensure_all_running()
    assert len(hosts.asked) == asked, "it is mended"


def test_a_full_disk_of_ours_spoils_a_cell_however_it_ended() -> None:
    done, failed, stopped = Outcome(0), Outcome(0), Outcome(0)
    done.end(CellStatus.DONE, "")
    failed.end(CellStatus.FAILED, "the cluster did not get healthy again", CellAnomaly.NO_RECOVERY)
    stopped.end(CellStatus.INTERRUPTED, "stopped by a signal")
    for outcome in (done, failed, stopped):
        outcome.spoil("the disk of the run is full")
    assert (done.record.status, done.record.reason) == (CellStatus.FAILED, "the disk of the run is full")
    assert failed.record.anomaly is CellAnomaly.NONE
    assert failed.record.reason == "the disk of the run is full; then the cluster did not get healthy again"
    assert (stopped.record.status, stopped.record.reason) == (CellStatus.INTERRUPTED, "stopped by a signal")


def test_only_a_full_disk_is_taken_for_one() -> None:
    outcome = Outcome(0)
    outcome.fail_to_write(OSError(errno.EIO, "Input/output error"))
    outcome.fail_to_write(RuntimeError("No space left on device, says a host of somebody else"))
    assert outcome.full_disk == ""
    outcome.fail_to_write(OSError(errno.EDQUOT, "Disk quota exceeded"))
    outcome.fail_to_write(OSError(errno.ENOSPC, "No space left on device"))
    assert outcome.full_disk == "[Errno 122] Disk quota exceeded", "the first one is told"


@pytest.mark.parametrize("state", HostState)
def test_a_cell_of_which_a_load_host_was_lost_was_not_carried_out(state: HostState) -> None:
    outcome = Outcome(0)
    outcome.end(CellStatus.DONE, "")
    assert is_carried_out(outcome.record)
    hosts = (LoadHostRecord(name="a", state=HostState.DONE), LoadHostRecord(name="b", state=state))
    assert is_carried_out(replace(outcome.record, load_hosts=hosts)) == (state is HostState.DONE)
