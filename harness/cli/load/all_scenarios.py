"""`harness chaos` without a name: it says how long all scenarios would take, and asks whether that is wanted.

Shown by tests/harness/test_harness_cli.py.
"""

from __future__ import annotations

import sys

from harness.cli.arguments.run_options import RunOptions
from harness.cli.planning.plan_text import counted_cells, minutes, seconds_of
from harness.cli.planning.planned_cells import plan_of
from harness.suite import Suite
from harness.terminal.tables import print_fitting


def agreed_to_all(suite: Suite, options: RunOptions) -> bool:
    """Asks on a terminal. Without a terminal nobody can answer. Then it says how to agree, and the answer
    counts as no."""
    cells = plan_of(suite, options)
    names = list(dict.fromkeys(cell.record.scenario for cell in cells))
    how_long = minutes(seconds_of(suite, cells, options))
    print_fitting(f"all scenarios are {len(names)} with {counted_cells(len(cells))}, about {how_long}.", to_stderr=True)
    print_fitting(
        "  harness chaos leader-loss   one of them\n"
        "  harness chaos --smoke       six cells, one scenario for each kind of damage\n"
        "  harness list scenarios      which there are\n"
        "  harness chaos --dry-run     what would be done\n"
        "  harness chaos --yes         all of them",
        to_stderr=True,
        hanging=len("  harness chaos leader-loss   "),
    )
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print("Run them all? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
