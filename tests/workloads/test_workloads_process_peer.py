"""A client process and its pipes: lines with a bound, answers, time-outs, crashes, and an end in any case."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from tests.patience import QUIET_S, Patience, wait_until
from workloads.clients import process
from workloads.clients.process.conversation import Rule
from workloads.clients.process.framing import STDERR_BYTES_MAX, Lines, LineTooLong, Tail
from workloads.clients.process.messages import Done, Event, OutRecord
from workloads.clients.process.peer import Peer, PeerLost

SCRIPT = """
import json, os, sys, time

def say(**event):
    print(json.dumps(event), flush=True)

def now():
    return time.monotonic_ns() // 1000

def ready(*can):
    say(event="ready", protocol=1, client="scripted", can=list(can))
"""
pytestmark = pytest.mark.slow


def peer_of(tmp_path: Path, script: str, heard: list[Event] | None = None) -> Peer:
    program = tmp_path / "program.py"
    program.write_text(SCRIPT + script)
    return Peer([sys.executable, str(program)], on_event=None if heard is None else heard.append)


def rules(peer: Peer) -> list[str]:
    return [mistake.rule for mistake in peer.mistakes]


def test_the_last_words_of_a_client_that_ends_at_once_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy host its standard output is at its end before the second reader has begun."""
    start = threading.Thread.start

    def start_and_wait(thread: threading.Thread) -> None:
        start(thread)
        if thread.name.endswith("-events"):
            thread.join(QUIET_S)

    monkeypatch.setattr(threading.Thread, "start", start_and_wait)
    peer = peer_of(tmp_path, "sys.exit('no such broker')")
    with pytest.raises(PeerLost, match="exit code 1; its last words: no such broker"):
        peer.wait_ready()
    peer.kill()


def test_lines_are_cut_wherever_the_pieces_end() -> None:
    text = b'{"a":1}\n{"b":"x\ry"}\n\n{"c":3'
    for size in range(1, len(text)):
        lines = Lines(100)
        found = [line for first in range(0, len(text), size) for line in lines.feed(text[first : first + size])]
        assert found == [b'{"a":1}\n', b'{"b":"x\ry"}\n', b"\n"]
        assert lines.rest() == b'{"c":3'


def test_a_line_beyond_the_bound_is_refused_before_it_has_ended() -> None:
    lines = Lines(10)
    assert lines.feed(b"123456789\n123456789") == [b"123456789\n"]
    with pytest.raises(LineTooLong):
        lines.feed(b"01")


def test_the_last_words_are_bounded_however_much_is_said() -> None:
    tail = Tail()
    for number in range(20_000):
        tail.add(b"line %d\n" % number)
    assert tail.text(2) == "line 19998\nline 19999"
    assert len(tail.text(100_000)) <= STDERR_BYTES_MAX


def test_a_command_is_answered_and_the_program_ends_with_its_input(tmp_path: Path) -> None:
    peer = peer_of(
        tmp_path,
        """
ready("produce")
for line in sys.stdin:
    say(event="done", id=json.loads(line)["id"], at_us=now())
""",
    )
    assert peer.wait_ready().client == "scripted"
    assert isinstance(peer.call("flush", timeout_s=1), Done)
    peer.end()
    assert peer.mistakes == []
    assert not psutil.pid_exists(peer.pid)


def test_events_that_are_no_answers_are_handed_on(tmp_path: Path) -> None:
    heard: list[Event] = []
    peer = peer_of(
        tmp_path,
        """
ready("produce")
for line in sys.stdin:
    command = json.loads(line)
    if command["do"] == "produce":
        seqs = [each["seq"] for each in command["records"]]
        records = [{"seq": seq, "sent_us": now(), "partition": 0, "offset": seq} for seq in seqs]
        say(event="acknowledged", at_us=now(), records=records)
    else:
        say(event="done", id=command["id"], at_us=now())
""",
        heard,
    )
    peer.wait_ready()
    peer.produce("t", [OutRecord(seq=seq, value=b"x" * 10_000) for seq in range(100)])
    peer.call("flush", timeout_s=5)
    peer.end()
    assert [event.event for event in heard if event.event != "ready"] == ["acknowledged"]
    assert peer.mistakes == []


def test_a_program_that_does_not_answer_is_told_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.clients.process.peer.GRACE_S", 0.2)
    peer = peer_of(tmp_path, "ready('produce')\nprint('still here', file=sys.stderr, flush=True)\ntime.sleep(600)")
    peer.wait_ready()
    with pytest.raises(PeerLost, match=r"no answer in time: flush, within 100 ms(.|\n)*still here"):
        peer.call("flush", timeout_s=0.1)
    assert rules(peer) == [Rule.HANG]
    assert not psutil.pid_exists(peer.pid)


def test_a_crash_is_told_with_the_signal_and_the_last_words(tmp_path: Path) -> None:
    peer = peer_of(
        tmp_path,
        """
ready("produce")
sys.stdin.readline()
print("assertion failed: segment", file=sys.stderr, flush=True)
os.kill(os.getpid(), 11)
""",
    )
    peer.wait_ready()
    with pytest.raises(PeerLost, match=r"SIGSEGV; its last words: assertion failed: segment"):
        peer.call("flush", timeout_s=60)
    peer.end()
    assert rules(peer) == [Rule.ENDED]


def test_its_last_words_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy host the thread that reads them may come last."""
    told = threading.Event()
    how_it_ended, read_stderr = Peer._how_it_ended, Peer._read_stderr

    def tell(peer: Peer) -> str:
        told.set()
        return how_it_ended(peer)

    def read_late(peer: Peer) -> None:
        told.wait(0.5)
        read_stderr(peer)

    monkeypatch.setattr(Peer, "_how_it_ended", tell)
    monkeypatch.setattr(Peer, "_read_stderr", read_late)
    peer = peer_of(
        tmp_path,
        """
ready("produce")
sys.stdin.readline()
print("no more room", file=sys.stderr, flush=True)
os._exit(3)
""",
    )
    peer.wait_ready()
    with pytest.raises(PeerLost, match=r"exit code 3; its last words: no more room"):
        peer.call("flush", timeout_s=60)
    peer.end()


def test_a_program_that_is_not_there_is_told() -> None:
    with pytest.raises(PeerLost, match="no-such-client does not start: No such file"):
        Peer(["./no-such-client"])


def test_a_program_that_ignores_the_end_of_its_input_is_killed_with_its_children(tmp_path: Path) -> None:
    peer = peer_of(
        tmp_path,
        """
import subprocess
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdout=subprocess.DEVNULL)
ready()
print(child.pid, file=sys.stderr, flush=True)
time.sleep(600)
""",
    )
    peer.wait_ready()
    patience = Patience("the child's pid")
    while not peer.last_words():
        patience.check()
    child = psutil.Process(int(peer.last_words()))
    peer.end(timeout_s=0.1)
    assert "did not end within 0 s" in peer.mistakes[0].message
    patience = Patience("the end of the child")
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        patience.check()


def test_an_exit_code_other_than_0_is_told(tmp_path: Path) -> None:
    peer = peer_of(tmp_path, "ready()\nsys.stdin.read()\nsys.exit(3)")
    peer.wait_ready()
    peer.end()
    assert "exit code 3" in peer.mistakes[0].message


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    peer = peer_of(tmp_path, "ready()\nwhile True: sys.stdout.write('x' * (1 << 20)); sys.stdout.flush()")
    peer.wait_ready()
    patience = Patience("the end of the program")
    while not peer.is_lost:
        patience.check()
    peer.end()
    assert rules(peer) == [Rule.LINE_TOO_LONG, Rule.ENDED]


def test_records_wait_here_while_the_program_reads_nothing(tmp_path: Path) -> None:
    peer = peer_of(tmp_path, "ready('produce')\ntime.sleep(600)")
    peer.wait_ready()
    lines = 0
    while peer.has_room:
        peer.produce("t", [OutRecord(seq=lines, value=b"x" * 100_000)])
        lines += 1
        assert lines < 1_000
    peer.pump(0.01)
    assert not peer.has_room
    peer.kill()


FULL = {
    "bootstrap.servers": "127.0.0.1:9",  # nobody listens there
    "client.id": "x",
    "delivery.timeout.ms": "1500",
    "queue.buffering.max.messages": "10",
    "request.timeout.ms": "1000",
}


def test_a_client_whose_buffer_is_full_ends_when_nobody_reads_it_any_more() -> None:
    """Whoever started it was killed. It waits for room and reads no command, so the end of these tells it nothing."""
    client = Path(process.__file__).parent / "shipped" / "python" / "client.py"
    started = subprocess.Popen([sys.executable, str(client)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert started.stdin is not None
    assert started.stdout is not None
    try:
        records = [{"seq": seq, "key": None, "value": "eA==", "partition": 0} for seq in range(200)]
        for command in (
            {"do": "connect", "id": 1, "role": "producer", "properties": FULL, "timeout_ms": 5_000},
            {"do": "produce", "topic": "t", "records": records},
        ):
            started.stdin.write(json.dumps(command).encode() + b"\n")
            started.stdin.flush()
        while b'"event":"done"' not in started.stdout.readline():
            pass
        started.stdin.close()
        started.stdout.close()
        wait_until(lambda: started.poll() is not None, "the end of the client")
    finally:
        started.kill()
        started.wait()


def test_a_program_that_has_ended_is_not_signalled_by_who_stops_it_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id may be somebody else's by then."""
    killed: list[int] = []
    peer = peer_of(tmp_path, "")
    wait_until(lambda: peer.is_lost, "its end is told")
    with monkeypatch.context() as patched:
        patched.setattr(os, "killpg", lambda group, number: killed.append(group))
        peer.stop_at_once()
    peer.kill()
    assert killed == []
    lives = peer_of(tmp_path, "import time\ntime.sleep(600)")
    lives.stop_at_once()
    wait_until(lambda: lives.is_lost, "its end is told")
    lives.kill()
    assert "SIGKILL" in lives.mistakes[-1].message
