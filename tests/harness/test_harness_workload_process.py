"""Listening to a load process: real processes that behave in the ways that matter."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.errors import CellError
from harness.run.generator.workload_process import WorkloadProcess
from runlog.records.load import LoadDone, LoadEnded, LoadError

Start = Callable[[str], WorkloadProcess]
BOUND_S = 20.0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[WorkloadProcess] = []

    def begin(program: str) -> WorkloadProcess:
        started.append(WorkloadProcess(tmp_path / "stderr.log", (sys.executable, "-c", program)))
        return started[-1]

    yield begin
    for process in started:
        process.kill()


@pytest.mark.slow
def test_a_plan_goes_in_and_events_come_out_until_the_end(start: Start) -> None:
    process = start("""import json
print('{"event":"ready"}', flush=True)
plan = json.loads(input())
print(json.dumps({"event": "done", "t_us": plan["seed"], "of_tomorrow": 1}), flush=True)""")
    process.begin({"seed": 9})
    assert process.next_event(BOUND_S) == LoadDone(t_us=9)
    assert process.next_event(BOUND_S) == LoadEnded()
    assert process.next_event(BOUND_S) == LoadEnded(), "the end is told again to whoever asks again"


@pytest.mark.slow
def test_a_line_that_is_no_json_is_an_error_that_shows_it(start: Start) -> None:
    process = start("print('Traceback: something broke', flush=True)")
    event = process.next_event(BOUND_S)
    assert isinstance(event, LoadError)
    assert "something broke" in event.message


@pytest.mark.slow
@pytest.mark.parametrize("line", ['{"event":"phase","phase":"lunch","t_us":1}', '{"event":"progress"}', "[1]"])
def test_an_event_that_does_not_fit_is_an_error_that_shows_it(start: Start, line: str) -> None:
    event = start(f"print({line!r}, flush=True)").next_event(BOUND_S)
    assert isinstance(event, LoadError)
    assert line in event.message


@pytest.mark.slow
def test_a_process_that_ends_before_it_is_ready_is_named_with_its_last_words(start: Start) -> None:
    process = start("import sys; sys.exit('no such module')")
    with pytest.raises(CellError, match="did not start"):
        process.wait_ready(BOUND_S)


@pytest.mark.slow
def test_a_process_that_says_nothing_is_given_up_in_bounded_time(start: Start) -> None:
    process = start("import time; time.sleep(60)")
    with pytest.raises(CellError, match="not ready after"):
        process.wait_ready(0.3)


@pytest.mark.slow
def test_a_process_is_let_finish_what_it_was_told(start: Start, tmp_path: Path) -> None:
    """The hub of load hosts was ended before they had heard that they may forget a run log."""
    done = tmp_path / "done"
    process = start(f"""import pathlib, sys, time
print('{{"event":"ready"}}', flush=True)
sys.stdin.read()
time.sleep(1)
pathlib.Path({str(done)!r}).touch()""")
    process.wait_ready(BOUND_S)
    assert process.finish(60.0) == 0
    assert done.exists()
