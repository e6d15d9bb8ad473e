"""What becomes of a load host's part in a cell, without a network: the parts are filled by hand."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

ASKS = """
from pathlib import Path
from types import SimpleNamespace as Made
from workloads.hosts.hosts_fleet import HostsFleet, _Part, _ending, _state_of
from workloads.reports import merge_states

host = Made(name="load-1", client_id="a", silent_s_max=0.0)
part = _Part(host, Made(run_dir=Path("run"), cell_id="cell"), None, 0, None)
part.reports = ()
part.state = merge_states(())
print(*_ending(part, None), sep="|")
part.state = part.state.model_copy(update={"errors": ("producer 1: the disk is full",)})
print(*_ending(part, None), sep="|")
print(*_state_of(part).errors, sep="|")

part.state, part.problem = None, ""
fleet = HostsFleet.__new__(HostsFleet)
fleet.parts, fleet._tell = {"load-1": part}, lambda *_: None
fleet._registry = Made(alive=lambda: [Made(name="load-1", client_id="b")])
fleet._wait_prepared()
print(part.problem)
"""


@pytest.fixture(scope="module")
def told() -> list[str]:
    """In a process of its own, because what it imports has Locust."""
    done = subprocess.run([sys.executable, "-c", ASKS], capture_output=True, text=True, check=True, timeout=110)
    return done.stdout.splitlines()


def test_a_host_that_could_not_write_down_all_is_not_done_and_is_named(told: list[str]) -> None:
    assert told[:3] == [
        "done|",
        "failed|producer 1: the disk is full",
        "load host load-1: producer 1: the disk is full",
    ]


def test_a_host_that_is_started_anew_before_its_load_began_is_not_waited_for(told: list[str]) -> None:
    assert told[3] == "its worker was started anew in the middle of the cell"
