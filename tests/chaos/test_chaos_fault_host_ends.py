"""A fault host heals what it has broken, also if a broker takes long to stop, if the disk is full, or if a heal fails.

A broker that was told to stop is down until it is seen up: whoever ended it starts it, however long it took to end.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from chaos.fault_host.host import FaultHost
from chaos.fault_host.site import NotDone, Site
from chaos.process_identity import ProcessIdentity, is_alive, read_state
from tests.chaos.operators import NAME, Operator
from tests.patience import wait_until

pytestmark = [pytest.mark.slow]
SHORT_STOP = "    stop_within: 200ms\n"


class SlowStop:
    """Broker 1, which handles SIGTERM and ends when `may_end` is called. Started again, it is a usual one."""

    def __init__(self, operator: Operator) -> None:
        self._operator, self._usual = operator, operator.script.read_text()
        self._file = operator.directory / "may-end"
        code = f"trap 'until [ -e {self._file} ]; do sleep 0.02; done; exit' TERM; while :; do sleep 0.02; done"
        launcher = operator.directory / "slow.sh"
        launcher.write_text(f'#!/bin/bash\nexec -a "{NAME}" bash -c "{code}"\n')
        launcher.chmod(0o755)
        operator.script.write_text(self._usual.replace(f"{NAME} >", f"{launcher} >"))
        os.kill(operator.broker(1).pid, signal.SIGKILL)
        self.identity = operator.start(1)
        operator.script.write_text(self._usual)

    def may_end(self) -> None:
        self._file.touch()
        wait_until(lambda: not is_alive(self.identity), "the broker ends at last")


def is_up_again(operator: Operator, worker: FaultHost, old: ProcessIdentity) -> bool:
    worker.heard()
    worker.step()
    return not operator.leases() and operator.broker_or_none(1) not in (None, old)


def test_a_broker_that_still_stops_when_it_is_to_be_started_is_started_when_it_has_ended(operator: Operator) -> None:
    slow, worker = SlowStop(operator), operator.worker(operator.permits(more=SHORT_STOP))
    with pytest.raises(NotDone, match=r"did not end within 0\.2 s of SIGTERM"):
        worker.act("terminate", 1)
    with pytest.raises(NotDone, match="still stops") as caught:
        worker.act("start", 1)
    assert caught.value.is_unknown, "it is started when it has ended"
    assert [held["what"] for held in operator.leases()] == ["down"]
    slow.may_end()
    wait_until(lambda: is_up_again(operator, worker, slow.identity), "the worker starts it without being asked again")


def test_a_start_waits_for_the_end_of_a_broker_that_stops_slowly(operator: Operator) -> None:
    slow, worker = SlowStop(operator), operator.worker(operator.permits(more=SHORT_STOP))
    with pytest.raises(NotDone, match=r"did not end within 0\.2 s of SIGTERM"):
        worker.act("terminate", 1)
    slow.may_end()
    after = worker.act("start", 1).running
    assert after == operator.broker(1) != slow.identity
    assert not operator.leases()


def test_a_lost_harness_leaves_no_broker_down_that_stops_slowly(operator: Operator) -> None:
    slow, worker = SlowStop(operator), operator.worker(operator.permits(more=SHORT_STOP))
    with pytest.raises(NotDone):
        worker.act("terminate", 1)
    worker.begin_run("run-2")
    assert operator.leases(), "it still stops"
    assert not any("runs" in line for line in operator.said), operator.said
    assert any("still stops" in line for line in operator.said), operator.said
    slow.may_end()
    wait_until(lambda: is_up_again(operator, worker, slow.identity), "it is started")


def test_a_worker_that_ends_hands_a_stopping_broker_to_the_next_one(operator: Operator) -> None:
    slow, worker = SlowStop(operator), operator.worker(operator.permits(more=SHORT_STOP))
    with pytest.raises(NotDone):
        worker.act("terminate", 1)
    worker.close()
    assert operator.leases()
    slow.may_end()
    operator.worker()
    assert not operator.leases()
    assert is_alive(operator.broker(1))


def test_a_broker_that_still_stops_can_be_killed(operator: Operator) -> None:
    slow, worker = SlowStop(operator), operator.worker(operator.permits(more=SHORT_STOP))
    with pytest.raises(NotDone):
        worker.act("terminate", 1)
    worker.act("kill", 1)
    assert not is_alive(slow.identity)
    worker.act("start", 1)
    assert not operator.leases()


def test_a_worker_that_was_killed_before_its_signal_leaves_no_broker_paused(operator: Operator) -> None:
    """It had paused the broker, noted that it stops it, and was killed before it let the broker go on."""
    worker, broker = operator.worker(operator.permits(more=SHORT_STOP)), operator.broker(1)
    worker.act("pause", 1)
    site = worker._sites[1]
    site.hold("down", broker, run_id="run-1")
    operator.worker(operator.permits(more=SHORT_STOP))
    wait_until(lambda: read_state(broker.pid) != "T", "it goes on")


def test_a_signal_that_may_not_be_sent_leaves_the_lease_of_the_pause(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, broker = operator.worker(), operator.broker(1)
    worker.act("pause", 1)

    def refuse(_site: Site, _identity: ProcessIdentity, _number: signal.Signals) -> None:
        raise NotDone("the worker may not send it a signal")

    with monkeypatch.context() as patched:
        patched.setattr(Site, "send", refuse)
        with pytest.raises(NotDone, match="may not"):
            worker.act("kill", 1)
    assert [held["what"] for held in operator.leases()] == ["paused"]
    worker.act("resume", 1)
    wait_until(lambda: read_state(broker.pid) != "T", "it goes on")


def test_a_start_that_another_worker_has_begun_is_not_done_twice(operator: Operator) -> None:
    """The worker was killed while the start command ran. Two brokers on one directory would be harm."""
    usual = operator.script.read_text()
    go, begun = operator.directory / "go", operator.directory / "begun"
    operator.script.write_text(
        usual.replace("#!/bin/sh\n", f"#!/bin/sh\necho x >>{begun}\nuntil [ -e {go} ]; do sleep 0.02; done\n")
    )
    worker = operator.worker(operator.permits(more="    start_within: 300ms\n"))
    worker.act("kill", 1)
    with pytest.raises(NotDone, match="did not come up"):
        worker.act("start", 1)
    operator.worker(operator.permits(more="    start_within: 300ms\n"))
    assert operator.leases(), "it did not come up yet"
    assert begun.read_text() == "x\n", "the first start goes on, and there is no second one"
    go.touch()
    operator.worker()
    assert not operator.leases()
    assert begun.read_text() == "x\n"
    assert is_alive(operator.broker(1))


def test_one_heal_that_fails_keeps_no_other_broker_broken(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    worker, paused = operator.worker(), operator.broker(2)
    worker.act("kill", 1)
    worker.act("pause", 2)
    heal = FaultHost._heal

    def fails_for_1(self: FaultHost, site: Site, why: str) -> str:
        if site.broker == 1:
            raise OSError(28, "No space left on device")
        return heal(self, site, why)

    with monkeypatch.context() as patched:
        patched.setattr(FaultHost, "_heal", fails_for_1)
        worker.begin_run("run-2")
    wait_until(lambda: read_state(paused.pid) != "T", "broker 2 goes on")
    assert any("broker 1" in line and "No space left" in line for line in operator.said), operator.said
    worker.begin_run("run-3")
    assert not operator.leases()


def test_after_the_end_has_begun_nothing_more_is_broken(operator: Operator) -> None:
    worker, broker = operator.worker(), operator.broker(1)
    worker.close()
    with pytest.raises(NotDone, match="ends"):
        worker.act("pause", 1)
    assert read_state(broker.pid) != "T"


def test_no_room_for_the_output_of_a_start_keeps_no_broker_down(operator: Operator) -> None:
    worker = operator.worker()
    worker.act("kill", 1)
    Path(operator.directory / "start-1.log").mkdir()  # whatever keeps a file from being written
    worker.act("start", 1)
    assert not operator.leases()
    assert is_alive(operator.broker(1))
