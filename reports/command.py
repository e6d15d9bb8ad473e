"""The analysis as a command: its arguments, and the exit code of each error. Imports only what a check needs.

Shown by tests/reports/test_reports_command.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from reports.read.errors import EXIT_ENVIRONMENT, EXIT_USAGE, EnvironmentProblem, UsageProblem
from reports.read.spark_needs import parse_conf, require_what_it_takes
from reports.render.publication import is_analysis_id, new_analysis_id
from runlog.files.redaction import hidden_text

MASTER_CHARACTERS_MAX = 4_096  # A URL may be so long.


def execute(arguments: Sequence[str] | None = None) -> int:
    """The exit code. Raises what it does not expect: the entry point tells it."""
    parser = argparse.ArgumentParser(prog="python -m reports", description="Analyse a run directory and report on it.")
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR", nargs="?")
    master_help = "Spark master, or sc://HOST:PORT of a Spark Connect server; - reads it from stdin (default: local[2])"
    parser.add_argument("--master", default="local[2]", help=master_help)
    conf_help = "a setting of the Spark session, after ours; often. No secrets: a command line is public"
    parser.add_argument("--spark-conf", action="append", default=[], metavar="spark.NAME=VALUE", help=conf_help)
    parser.add_argument("--allow", type=Path, metavar="FILE", help="anomalies to live with, each until a day (YAML)")
    parser.add_argument("--store", metavar="URL", help="read the run log in the run's store, in place")
    parser.add_argument("--check", action="store_true", help="only try what the analysis needs; exit 0 or 3")
    wait_help = "start Spark, read RUN_DIR only when stdin says `begin`, and end if stdin ends before"
    parser.add_argument("--wait", action="store_true", help=wait_help)
    parser.add_argument("--analysis-id", metavar="HEX16", help="what the results are to be marked with")
    given = parser.parse_args(arguments)
    if given.master == "-":  # a token in it is then on no command line
        given.master = sys.stdin.readline(MASTER_CHARACTERS_MAX).strip()
    if not given.check and given.run_dir is None:
        parser.error("RUN_DIR is missing")
    if given.analysis_id is not None and not is_analysis_id(given.analysis_id):
        parser.error(f"--analysis-id {given.analysis_id!r}: expected 16 hexadecimal digits")
    try:
        parse_conf(given.spark_conf)
        if given.check:
            require_what_it_takes(given.master)
            return 0
        # pandas and pydantic: half a second that a check can do without
        from reports.ahead import carry_out_when_told
        from reports.job import Request, carry_out

        analysis_id = given.analysis_id or new_analysis_id()
        request = Request(
            run_dir=given.run_dir,
            master=given.master,
            allow=given.allow,
            analysis_id=analysis_id,
            store=given.store,
            spark_conf=tuple(given.spark_conf),
        )
        return carry_out_when_told(request) if given.wait else carry_out(request)
    except UsageProblem as error:
        code, text = EXIT_USAGE, str(error)
    except EnvironmentProblem as error:
        code, text = EXIT_ENVIRONMENT, str(error)
    except OSError as error:  # the disk is full or read-only, the directory is not ours
        code, text = EXIT_ENVIRONMENT, f"{error}; no results were written"
    print(f"reports: {hidden_text(text)}", file=sys.stderr)
    return code
