"""Brokers on other hosts that end by themselves are told; those that the run ends are not."""

from __future__ import annotations

from chaos.process_identity import ProcessIdentity
from harness.clusters.hosts.host_answers import HostFaultError
from harness.clusters.hosts.host_exits import LOOK_S, HostExits

ONE, TWO = ProcessIdentity(pid=11, start_ticks=5), ProcessIdentity(pid=12, start_ticks=9)


class There:
    def __init__(self) -> None:
        self.runs: dict[int, ProcessIdentity | None] = {1: ONE, 2: TWO}
        self.now_s = 100.0
        self.is_silent = False
        self.asked = 0
        self.meanwhile = lambda: None
        self.exits = HostExits(self.identity, lambda: self.now_s)

    def identity(self, broker: int) -> ProcessIdentity | None:
        self.asked += 1
        if self.is_silent:
            raise HostFaultError("it was not heard of", is_certain=False)
        self.meanwhile()
        return self.runs[broker]

    def look(self) -> dict[int, tuple[int, int | None]]:
        self.now_s += LOOK_S
        return dict(self.exits.look([1, 2]))


def test_a_broker_that_is_gone_or_another_process_has_ended_by_itself() -> None:
    there = There()
    assert there.look() == {}
    there.runs[1] = None
    assert there.look() == {1: (11, None)}
    there.runs[2] = ProcessIdentity(pid=12, start_ticks=77)
    assert there.look() == {1: (11, None), 2: (12, None)}, "an init system has started it again at once"
    there.runs[1] = ProcessIdentity(pid=13, start_ticks=80)
    assert there.look() == {1: (11, None), 2: (12, None)}, "each end once"


def test_a_broker_that_the_run_ends_has_not_ended_by_itself() -> None:
    there = There()
    there.look()
    there.exits.ends_by_us(1)
    there.runs[1] = None
    assert there.look() == {}
    there.runs[1] = ProcessIdentity(pid=13, start_ticks=80)  # started by the run
    assert there.look() == {}
    there.runs[1] = None
    assert there.look() == {1: (13, None)}


def test_what_is_asked_while_the_run_ends_a_broker_does_not_count() -> None:
    there = There()
    there.look()
    there.runs[1] = None
    there.meanwhile = lambda: there.exits.ends_by_us(1)
    assert there.look() == {}


def test_a_host_that_does_not_answer_says_nothing_of_its_brokers() -> None:
    there = There()
    there.look()
    there.is_silent = True
    there.runs[1] = None
    assert there.look() == {}


def test_hosts_are_not_asked_at_every_step() -> None:
    there = There()
    there.look()
    there.exits.look([1, 2])
    assert there.asked == 2
