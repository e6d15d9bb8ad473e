"""Where the Spark of an analysis runs and what it is set to, as every command that may start one passes it on.

Shown by tests/harness/test_harness_spark_choice.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from harness.errors import UsageError
from reports.read.errors import UsageProblem
from reports.read.spark_needs import parse_conf


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkChoice:
    """`master` is a URL, or None for threads of this host. `conf` has `spark.NAME=VALUE`, to come after ours."""

    master: str | None = None
    conf: tuple[str, ...] = ()

    @classmethod
    def of_options(cls, master: str | None, conf: Sequence[str] | None) -> Self:
        """As `--spark-master` and `--spark-conf` were given. UsageError names the setting that is none."""
        try:
            parse_conf(conf or ())
        except UsageProblem as error:
            raise UsageError(str(error)) from error
        return cls(master=master, conf=tuple(conf or ()))

    def arguments(self) -> list[str]:
        """Of `python -m reports`. The master is passed by stdin: the URL of a Spark Connect server may contain a token,
        and a command line is public."""
        return [*(f"--spark-conf={one}" for one in self.conf), *(["--master", "-"] if self.master else [])]


THIS_HOST = SparkChoice()
