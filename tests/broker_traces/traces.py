"""`python tests/broker_traces/traces.py [--rewrite] [FILE...]`: runs traces, and compares or writes what comes of them.

A trace is a text file, in the manner of etcd's data-driven tests. It begins with comments that say what it shows. Then
come blocks: commands, `----`, and what the cores answer to them, up to a blank line. A file in `quorum` is about
voters of the metadata quorum, one in `replication` about the replicas of a partition. With --rewrite the answers in
the files are replaced by what the cores answer now: read the difference before you keep it.

Commands about the quorum. Every voter has a clock of its own.
    voters 1 2 3 [setting=value]   who votes
    start 1 2, crash 1             a process begins, with what is on its disk, or ends
    shutdown 1                     a clean stop
    elect 1                        it stands for election, and all messages are delivered until nothing is in flight
    campaign 1                     its clock goes to where it stands for election, or gives up what it does
    pass 1 500ms                   its clock goes on
    append 1 x                     a proposal to the leader
    deliver 1->2                   the oldest message on that way
    settle                         all messages, until nothing is in flight; the messages are not written down
    drop 1->2, cut 1 2, heal       lost messages and links
    state                          role, log and high watermark of each; 3@2 is offset 3 of epoch 2

Commands about replication. The controller is a part of the trace.
    brokers 1 2 3 [isr=1,2] [min.insync.replicas=2]   replicas of a partition, led by the first
    append 1 x [acks=1]            a produce to this broker, acks=all unless told otherwise
    fetch 2                        one Fetch to whom it takes for the leader
    pass 500ms                     the clock of all
    controller answer | lost       to the oldest proposal of an ISR
    elect 2 [unclean], fence 3, register 3, minimum 2   what the controller commits; brokers hear of it by `tell`
    tell 1 2                       the image as it is now
    crash 1, restart 1 [high-watermark=0]
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path

from quorum_trace import QuorumTrace
from replication_trace import ReplicationTrace

HERE = Path(__file__).parent
LINE = "----"
INTERPRETERS: dict[str, type[QuorumTrace | ReplicationTrace]] = {"quorum": QuorumTrace, "replication": ReplicationTrace}


def files() -> list[Path]:
    return sorted(path for kind in INTERPRETERS for path in (HERE / kind).glob("*.txt"))


def replayed(path: Path) -> str:
    """The file as it would be with the answers that the cores give now."""
    interpreter = INTERPRETERS[path.parent.name]()
    written: list[str] = []
    commands: list[str] = []
    is_answer = False
    for line in path.read_text().splitlines():
        if is_answer and line:
            continue
        is_answer = line == LINE
        written.append(line)
        if is_answer:
            answers = [answer for command in commands for answer in interpreter.run(*_parsed(command))]
            written += answers or ["ok"]
            commands = []
        elif line and not line.startswith("#"):
            commands.append(line)
    return "\n".join(written) + "\n"


def _parsed(command: str) -> tuple[str, list[str]]:
    name, *words = command.split()
    return name, words


def difference(path: Path) -> str:
    """What is not as the file says, empty if all is."""
    old, new = path.read_text().splitlines(keepends=True), replayed(path).splitlines(keepends=True)
    return "".join(difflib.unified_diff(old, new, str(path), "what the cores answer"))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewrite", action="store_true", help="write the answers into the files")
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args(arguments)
    differences = 0
    for path in [each.resolve() for each in options.files] or files():
        if options.rewrite:
            path.write_text(replayed(path))
        elif found := difference(path):
            differences += 1
            print(found)
    return int(bool(differences))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
