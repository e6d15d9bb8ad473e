"""One client process: its start, its pipes, its end.

Lines go out without blocking; those that the pipe does not take wait here, and `room` says whether there are few. A
thread reads the events and hands them on. What may be said when, and what a line means, is in conversation.py. Shown
by tests/workloads/test_workloads_process_peer.py.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Final

from workloads.clients.process.conversation import Conversation, Mistake, Rule
from workloads.clients.process.frames import Outcomes
from workloads.clients.process.framing import Lines, LineTooLong, Tail
from workloads.clients.process.messages import LINE_BYTES_MAX, Event, OutRecord, Ready
from workloads.clients.protocol import START_TIMEOUT_S, RecordBatch

GRACE_S: Final = 10.0  # beyond the time of a command, on a busy host
END_S: Final = 10.0  # from the end of its standard input to SIGKILL
UNWRITTEN_BYTES_MAX: Final = 1 << 20  # beyond the pipe; above this there is no room for more records
_PIPE_BYTES: Final = 1 << 20
_READ_BYTES: Final = 1 << 18
_TICK_S: Final = 0.02
_STDERR_LINES: Final = 12
_READERS_END_S: Final = 2.0  # a process of the client's own may hold the pipes open

OnEvent = Callable[[Event | Outcomes], None]
OnLine = Callable[[Event, int, bytes], None]  # an event, the number of its line from 1, and the line


class PeerLost(RuntimeError):
    """The client does not start, does not answer, or is gone. The text says which, with its last words."""


def now_us() -> int:
    """CLOCK_MONOTONIC, as the client takes it."""
    return time.monotonic_ns() // 1_000


class Peer:
    """Both are called from the reading thread: `on_event` for each event that is no answer to a command and for each
    frame of outcomes, and `on_line` for every event, before its answer is given, with an event for each outcome of a
    frame. `on_line` may not wait."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        on_event: OnEvent | None = None,
        on_line: OnLine | None = None,
        shares_fate: bool = False,
        name: str = "",
    ) -> None:
        """`name`: in messages. `shares_fate`: the client is in our process group, and signals to it reach both."""
        self.conversation = Conversation()
        self.name = name or os.path.basename(command[0])
        self._on_event, self._on_line = on_event, on_line
        self._changed = threading.Condition()
        self._answers: dict[int, Event] = {}
        self._awaited: set[int] = set()
        self._unwritten: deque[memoryview] = deque()
        self._unwritten_bytes = 0
        self._is_ending = False
        self.started_as = tuple(command), dict(environment or {})
        self.hand_overs = 0  # to another listener
        self._shares_fate = shares_fate
        self._stderr = Tail()
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **(environment or {})},
                bufsize=0,
                start_new_session=not shares_fate,  # what it has started itself must end with it, and Ctrl-C is ours
            )
        except OSError as error:
            raise PeerLost(f"{command[0]} does not start: {error.strerror}") from error
        assert self._process.stdin is not None
        self._stdin = self._process.stdin.fileno()
        os.set_blocking(self._stdin, False)
        with contextlib.suppress(OSError):  # with a smaller pipe there are only more writes
            fcntl.fcntl(self._stdin, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._writable = select.poll()  # select() ends at 1,024 descriptors
        self._writable.register(self._stdin, select.POLLOUT)
        self._readers = [
            threading.Thread(target=target, name=f"{self.name}-{what}", daemon=True)
            for target, what in ((self._read_events, "events"), (self._read_stderr, "stderr"))
        ]
        # Who reads the events waits for the last words at their end, which on a busy host comes at once.
        for reader in reversed(self._readers):
            reader.start()

    # --- asking ---------------------------------------------------------------------------------------------------

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> Ready:
        """PeerLost if its first line does not come in time."""
        self._wait(lambda: self.conversation.ready is not None, timeout_s, "its first line, ready")
        assert self.conversation.ready is not None
        return self.conversation.ready

    def call(self, do: str, *, timeout_s: float, **fields: Any) -> Event:
        """Ask and wait. The answer may be an error. PeerLost if none comes in time; Unasked as `Conversation.ask`."""
        return self.answer(self.ask(do, timeout_s=timeout_s, **fields))

    def ask(self, do: str, *, timeout_s: float, **fields: Any) -> int:
        """Ask only; `answer` waits."""
        with self._changed:
            number, line = self.conversation.ask(do, now_us(), timeout_ms=int(timeout_s * 1_000), **fields)
            self._awaited.add(number)
            self._write(line)
        return number

    def answer(self, number: int) -> Event:
        with self._changed:
            asked = self.conversation.pending.get(number)
            timeout_s = GRACE_S + (0 if asked is None else asked.timeout_ms / 1_000)
            what = "a command" if asked is None else f"{asked.do}, within {asked.timeout_ms:,} ms and {GRACE_S:.0f} s"
        self._wait(lambda: number in self._answers or number not in self.conversation.pending, timeout_s, what)
        with self._changed:
            self._awaited.discard(number)
            found = self._answers.pop(number, None)
        if found is None:
            do = "a command" if asked is None else asked.do
            raise PeerLost(f"client {self.name}: its answer to {do} is wrong: {self._last_mistake()}")
        return found

    def is_answered(self, number: int, timeout_s: float) -> bool:
        """Whether `answer` has nothing to wait for, after at most so long. PeerLost if the client is gone."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            with self._changed:
                if number in self._answers or number not in self.conversation.pending:
                    return True
                left_s = deadline_s - time.monotonic()
                self._changed.wait(max(0.0, min(left_s, _TICK_S)))
            self._check_here()
            self._flush()
            if left_s <= 0:
                return False

    def produce(self, topic: str, records: Sequence[OutRecord], *, callers: int = 1) -> None:
        with self._changed:
            self._write(self.conversation.produce(topic, records, now_us(), callers=callers))

    def produce_frame(self, batch: RecordBatch) -> None:
        with self._changed:
            self._write(self.conversation.produce_frame(batch, now_us()))

    @property
    def has_room(self) -> bool:
        return self._unwritten_bytes <= UNWRITTEN_BYTES_MAX

    @property
    def is_lost(self) -> bool:
        return self.conversation.is_over

    @property
    def is_at_rest(self) -> bool:
        """It has closed without a fault, and waits for another `connect` or the end of its standard input."""
        return self.conversation.is_at_rest and not self._is_ending

    @property
    def mistakes(self) -> Sequence[Mistake]:
        return self.conversation.mistakes

    @property
    def is_closed(self) -> bool:
        """It was ended or killed by us."""
        return self._is_ending

    @property
    def pid(self) -> int:
        return self._process.pid

    def leave(self) -> bool:
        """Nobody hears it any more, if it is at rest. Whether it is."""
        with self._changed:
            if self.is_at_rest:
                self._on_line = None
            return self.is_at_rest

    def hand_over(self, on_line: OnLine) -> bool:
        """Another listener, if it is at rest. Whether it is. The words that it has written to standard error so far are
        no last words of what comes now."""
        with self._changed:
            if not self.is_at_rest:
                return False
            self._on_line, self._stderr = on_line, Tail()
            self.hand_overs += 1
            return True

    def pump(self, timeout_s: float) -> None:
        """Wait at most this long, and write meanwhile. PeerLost if the client is gone."""
        deadline_s = time.monotonic() + timeout_s
        while self._unwritten and (left_s := deadline_s - time.monotonic()) > 0:
            self._writable.poll(min(left_s, _TICK_S) * 1_000)
            self._flush()
            self._check_here()
        if (left_s := deadline_s - time.monotonic()) > 0:
            time.sleep(left_s)

    # --- its end --------------------------------------------------------------------------------------------------

    def end(self, timeout_s: float = END_S) -> None:
        """Close its standard input, wait, and kill it if it does not end. A mistake is noted if it had to be killed or
        its exit code is not 0."""
        with self._changed:
            was_over, self._is_ending = self.conversation.is_over, True
        self._close_stdin()
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            if not was_over:
                self._note_end(f"it did not end within {timeout_s:.0f} s after the end of its standard input")
            return
        self._close_pipes()
        if code != 0 and not was_over:
            self._note_end(self._how_it_ended())

    def kill(self) -> None:
        """At once, with all that it has started."""
        with self._changed:
            self._is_ending = True
        self._signal_kill()
        self._process.wait()
        self._close_stdin()
        self._close_pipes()

    def stop_at_once(self) -> None:
        """From another thread than that which uses it, where its end is told as one that nobody asked for. Nothing is
        done if it has ended: its id may be somebody else's by now."""
        with self._changed:
            if not self._is_ending and self._process.poll() is None:
                self._signal_kill()

    def last_words(self) -> str:
        """What it wrote to standard error at last."""
        return self._stderr.text(_STDERR_LINES)

    def pump_or_lost(self, timeout_s: float) -> None:
        """As `pump`, and PeerLost also if there was nothing to write."""
        self.pump(timeout_s)
        self._check_here()

    # --- inside -----------------------------------------------------------------------------------------------------

    def _signal_kill(self) -> None:
        if self._shares_fate:
            self._process.kill()
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _write(self, line: bytes) -> None:
        if self._stdin < 0:
            raise PeerLost(f"client {self.name}: it is closed")
        self._unwritten.append(memoryview(line))
        self._unwritten_bytes += len(line)
        self._flush()

    def _flush(self) -> None:
        """What the pipe takes now. A pipe without a reader is told by the thread that sees the end of the process."""
        with self._changed:
            while self._unwritten and self._stdin >= 0:
                try:
                    written = os.write(self._stdin, self._unwritten[0])
                except BlockingIOError:
                    return
                except OSError:
                    self._unwritten.clear()
                    self._unwritten_bytes = 0
                    return
                self._unwritten_bytes -= written
                if written == len(self._unwritten[0]):
                    self._unwritten.popleft()
                else:
                    self._unwritten[0] = self._unwritten[0][written:]

    def _wait(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        deadline_s = time.monotonic() + timeout_s
        while True:
            with self._changed:
                if condition():
                    return
                self._changed.wait(_TICK_S)
                if condition():
                    return
            self._check_here()
            self._flush()
            if time.monotonic() > deadline_s:
                with self._changed:
                    self.conversation.hung(what)
                self.kill()
                raise PeerLost(f"client {self.name}: no answer in time: {what}{self._in_its_words()}")

    def _check_here(self) -> None:
        if self.conversation.is_over:
            raise PeerLost(f"client {self.name}: {self._last_mistake() or 'it said that it can do no more'}")

    def _read_events(self) -> None:
        """The body of the thread that reads; its end is the end of the client's standard output."""
        stdout = self._process.stdout
        assert stdout is not None
        lines = Lines(LINE_BYTES_MAX)
        try:
            while data := _read(stdout):
                for line in lines.feed(data):
                    self._hear(line)
            if rest := lines.rest():
                self._hear(rest)
        except LineTooLong as error:
            with self._changed:
                self.conversation.too_long(error.beginning)
            self._signal_kill()
        self._note_unasked_end()

    def _hear(self, line: bytes) -> None:
        with self._changed:
            event = self.conversation.hear(line, now_us())
            if event is not None:
                if self._on_line is not None:
                    for each in event.events() if isinstance(event, Outcomes) else (event,):
                        self._on_line(each, self.conversation.lines_heard, line)
                number = getattr(event, "id", None)
                if number in self._awaited and not isinstance(event, Outcomes):
                    self._answers[number] = event
                    event = None
            self._changed.notify_all()
        if event is not None and self._on_event is not None:
            self._on_event(event)

    def _read_stderr(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        while data := _read(stderr):
            self._stderr.add(data)

    def _note_unasked_end(self) -> None:
        with self._changed:
            if self._is_ending:
                return
        with contextlib.suppress(subprocess.TimeoutExpired):  # it has closed its standard output and lives on
            self._process.wait(END_S)
            _, words = self._readers
            words.join(_READERS_END_S)  # a child of its own may hold its standard error open
        with self._changed:
            if not self._is_ending:
                self.conversation.ended(self._how_it_ended() + self._in_its_words())
            self._changed.notify_all()

    def _note_end(self, how: str) -> None:
        with self._changed:
            self.conversation.ended(how + self._in_its_words())

    def _how_it_ended(self) -> str:
        code = self._process.poll()
        if code is None:
            return "it has closed its standard output"
        return f"exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"

    def _in_its_words(self) -> str:
        words = self.last_words()
        return f"; its last words: {words}" if words else ""

    def _last_mistake(self) -> str:
        """The end of a process is told where there is one: it explains more than what came before."""
        mistakes = self.conversation.mistakes
        found = [each for each in mistakes if each.rule == Rule.ENDED] or mistakes
        return str(found[-1]) if found else ""

    def _close_stdin(self) -> None:
        with self._changed:
            self._stdin = -1  # the number of a closed descriptor may be another file's by now
            self._unwritten.clear()
            self._unwritten_bytes = 0
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _close_pipes(self) -> None:
        """The readers close what they read, when they have read all of it."""
        for reader in self._readers:
            if reader is not threading.current_thread():
                reader.join(_READERS_END_S)


def _read(pipe: IO[bytes]) -> bytes:
    """b"" at the end, and then the pipe is closed."""
    with contextlib.suppress(OSError, ValueError):
        if data := os.read(pipe.fileno(), _READ_BYTES):
            return data
    with contextlib.suppress(OSError):
        pipe.close()
    return b""
