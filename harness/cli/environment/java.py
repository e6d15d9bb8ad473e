"""Whether there is any Java for the analysis. This is checked before the imports that a run needs, so that the answer
is quick.

Whether that Java works and is new enough is tried later, in a process of its own (harness/run/report/reporting.py).
Shown by tests/harness/test_harness_reporting.py.
"""

from __future__ import annotations

from typing import Final

from harness.errors import EnvironmentFault
from reports.read.spark_needs import JavaMissingError, find_java, is_connect

LATER: Final = "nothing was started; --no-report leaves the analysis out, and `harness report RUN` does it later"


def require_some_java(spark_master: str | None, *, advice: str = LATER) -> None:
    """EnvironmentFault that says how to get one. A Spark Connect server has its own Java."""
    if spark_master is not None and is_connect(spark_master):
        return
    try:
        find_java()
    except JavaMissingError as error:
        raise EnvironmentFault(f"{error}\n{advice}") from error
