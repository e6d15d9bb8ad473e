"""`python -m workloads.members SPEC.json`: one member process. SIGTERM: leave the group and end with 0.

Exit 1 when the client cannot go on, with the reason in the journal and on stderr; 2 when the spec is not valid.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

from workloads.members.copying import run_copier
from workloads.members.journal import MemberJournal
from workloads.members.loop import run_member
from workloads.members.sharing import run_share_member
from workloads.members.spec import parse_spec


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m workloads.members SPEC.json\n")
        return 2
    try:
        spec = parse_spec(Path(arguments[0]).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{arguments[0]}: {error}\n")
        return 2
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    journal = MemberJournal(Path(spec.journal))
    try:
        run = run_share_member if spec.is_share else run_copier if spec.is_copier else run_member
        run(spec, journal, stop)
    except Exception as error:  # the process's entry: what ended it must be in its journal
        journal.problem(f"{type(error).__name__}: {error}")
        sys.stderr.write(f"member {spec.member}: {type(error).__name__}: {error}\n")
        return 1
    finally:
        journal.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
