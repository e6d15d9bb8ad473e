"""The top package: suites, the plan of a run, its execution, and the command line."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.2.0"
