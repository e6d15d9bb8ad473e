"""The two kinds of problem that a user can repair, and the exit codes of the analysis. Any other error is our bug."""

from __future__ import annotations

from typing import Final

EXIT_USAGE: Final = 2
EXIT_ENVIRONMENT: Final = 3
EXIT_ERROR: Final = 5
EXIT_INTERRUPTED: Final = 130


class UsageProblem(Exception):
    """What was asked for, or given to read, is wrong."""


class EnvironmentProblem(Exception):
    """Java, Spark, a server, the disk: the machine must be mended."""
