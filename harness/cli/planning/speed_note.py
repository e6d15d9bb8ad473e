"""What figures of speed of a plan will be worth, said before it runs. Pure. Shown by
tests/harness/test_harness_speed_note.py.

The reference cluster and client are Python. Which damage settings permit is a rule of the protocol and carries over;
how fast something is does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.suite import Suite

_REFERENCE: Final = ("reference", "docker")  # both run the reference broker


def default_engine(suites: Sequence[Suite], *, has_address: bool) -> str:
    """The cluster if no --cluster is given: the first that all suites name in `engines`, else the reference cluster.
    `has_address`: of a cluster that the harness does not start."""
    named = {suite.engines[0] if suite.engines else "reference" for suite in suites}
    engine = named.pop() if len(named) == 1 else "reference"
    return "reference" if engine == "external" and not has_address else engine


def speed_note(suite: Suite, engine: str, client: str) -> str:
    """Empty if the suite asks for no speed, or if its figures are those of a broker and client that people run."""
    if suite.sweep is None and suite.search is None:
        return ""
    parts = []
    if engine in _REFERENCE:
        parts.append("the reference cluster (for speed: --cluster kafka, or your own by --cluster external)")
    if client == "reference":
        parts.append("the reference client (the library of your program: --client confluent, java, ...)")
    if not parts:
        return ""
    what = "it compares settings there, and its figures carry over to no other"
    return f"speed is measured with {' and '.join(parts)}: {what}"
