"""What becomes of a load host's part in a cell, without a network: the parts are filled by hand."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

ASKS = """
from pathlib import Path
from types import SimpleNamespace as Made
from workloads.hosts.hosts_fleet import _Part, _ending, _state_of
from workloads.reports import merge_states

host = Made(name="load-1", client_id="a", silent_s_max=0.0)
part = _Part(host, Made(run_dir=Path("run"), cell_id="cell"), None, 0, None)
part.reports = ()
part.state = merge_states(())
print(*_ending(part, None), sep="|")
part.state = part.state.model_copy(update={"errors": ("producer 1: the disk is full",)})
print(*_ending(part, None), sep="|")
print(*_state_of(part).errors, sep="|")
"""


def test_a_host_that_could_not_write_down_all_is_not_done_and_is_named() -> None:
    # In a process of its own, because what it imports has Locust.
    done = subprocess.run([sys.executable, "-c", ASKS], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines() == [
        "done|", "failed|producer 1: the disk is full", "load host load-1: producer 1: the disk is full",
    ]  # fmt: skip
