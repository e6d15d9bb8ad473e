"""The errors that a user sees, each with the exit code of the program.

Owns the exit codes of the command line (docs: README, "Exit codes"); knows nothing of what raises them.
Shown by tests/harness/test_harness_cli.py.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from enum import IntEnum
from typing import Final

from runlog.records.cell import CellAnomaly


class ExitCode(IntEnum):
    """What a shell script may branch on."""

    PASS = 0
    FAIL = 1
    USAGE = 2
    ENVIRONMENT = 3
    INCONCLUSIVE = 4
    HARNESS_ERROR = 5
    INTERRUPTED = 130


# When several runs end, the worst of their exit codes counts, in this order.
_WORST_FIRST: Final = (
    ExitCode.INTERRUPTED, ExitCode.HARNESS_ERROR, ExitCode.ENVIRONMENT, ExitCode.FAIL, ExitCode.INCONCLUSIVE,
    ExitCode.PASS,
)  # fmt: skip


def worst_of(codes: Collection[ExitCode]) -> ExitCode:
    return next(code for code in _WORST_FIRST if code in codes)


class HarnessError(Exception):
    """Something went wrong, and the message explains it. `exit_code` says who must act."""

    exit_code: ExitCode = ExitCode.HARNESS_ERROR


class UsageError(HarnessError):
    """The suite, the options or the configuration are wrong. The user must correct them."""

    exit_code = ExitCode.USAGE


class EnvironmentFault(HarnessError):
    """A process, a port, a JDK or a jar is missing or refused. The machine must be corrected."""

    exit_code = ExitCode.ENVIRONMENT


class LoadHostsLost(EnvironmentFault):
    """The load of the next cells cannot be run. What was measured before stays, and is reported."""


class CellError(HarnessError):
    """One cell could not be carried out. The run goes on, and the cell is inconclusive.

    `anomaly` names the anomaly of `reports/judge/anomalies.py` that this is, if it says something about the cluster or
    the client.
    """

    def __init__(self, message: str, *, anomaly: CellAnomaly = CellAnomaly.NONE) -> None:
        super().__init__(message)
        self.anomaly = anomaly


class Interrupted(HarnessError):
    """A signal asked the run to stop."""

    exit_code = ExitCode.INTERRUPTED


_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_WORDS_OF_FULL: Final = tuple(os.strerror(code).lower() for code in _FULL)


def is_full(error: BaseException) -> bool:
    """Whether a disk or a quota is full."""
    return isinstance(error, OSError) and error.errno in _FULL


def tells_of_full_disk(reason: str) -> bool:
    """Whether the words of an error, ours or of a process of ours, say that a disk or a quota is full."""
    return any(words in reason.lower() for words in _WORDS_OF_FULL)


# What the last output of a process means for the user.
_HINTS: Final = {
    "address already in use": "-> another process took the port meanwhile: run again, ports are chosen anew",
    "no space left": "-> the disk is full: free some space, or put the run elsewhere with --run-dir",
    "permission denied": "-> the directory above must be writable for this user",
}


def hints(last_words: str) -> list[str]:
    """What to do about the last output of a broker or a load process. [] if nothing is known."""
    return [hint for words, hint in _HINTS.items() if words in last_words.lower()]
