"""An analysis whose Spark is started before its run has ended: it waits for a word on its stdin, and then begins.

A JVM and a session take five seconds, in which a run still reads a log back and stops its cluster. Knows nothing of who
waits for what. Whoever started it need not tell it to end: it ends when its stdin does, and after a bound in any case.
Shown by tests/reports/test_reports_ahead.py.
"""

from __future__ import annotations

import sys
import threading
from typing import Final

from reports.job import Request, carry_out, own_session, start_preparation
from reports.read.session import Session

BEGIN: Final = "begin"
# From the end of the last load: a final read, a scenario that heals, and a copy into a store. Nobody needs a JVM that
# waits for longer: one that is started later costs seconds.
WAIT_S_MAX: Final = 900.0
_LINE_CHARACTERS_MAX: Final = 64


def carry_out_when_told(request: Request, wait_s_max: float = WAIT_S_MAX) -> int:
    """The exit code that the verdict has. Starts Spark at once, and reads the run directory when stdin says `begin`.

    If stdin ends, or says anything else, or says nothing for `wait_s_max`, this process and its JVM end with the exit
    code of the environment.
    """
    session = own_session(request)
    told = _listen(session)
    start_preparation()
    with session:
        if not told.wait(wait_s_max):
            session.give_up(f"nobody asked for the analysis within {wait_s_max:.0f} s of its start")
        if own_session(request).is_small == session.is_small:
            return carry_out(request, session=session)
    return carry_out(request)  # what came since made a large run of a small one


def _listen(session: Session) -> threading.Event:
    """Set when stdin says so. A thread listens, because the start of Spark cannot be interrupted."""
    told = threading.Event()

    def listen() -> None:
        line = sys.stdin.readline(_LINE_CHARACTERS_MAX)
        if line.strip() == BEGIN:
            told.set()
        else:
            said = f"says {line.strip()!r}, expected {BEGIN!r}" if line else "has ended"
            session.give_up(f"the analysis was not begun: stdin {said}")

    threading.Thread(target=listen, name="listen", daemon=True).start()
    return told
