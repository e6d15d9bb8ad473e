"""`python -m reports RUN_DIR [--master local[2]]`: analyse a run directory, write its results and its page.

Data (path of the page) on stdout, progress on stderr. Exit: 0 pass, 1 fail, 4 inconclusive, 2 usage, 3 environment.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from reports.allowances import AllowanceError, Allowances, read_allowances
from reports.rundir import RunDirectoryError, read_run
from reports.session import (
    SMALL_RUN_BYTES,
    Session,
    SparkUnavailableError,
    parquet_bytes,
    require_what_it_takes,
)

EXIT_USAGE, EXIT_ENVIRONMENT = 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m reports", description="Analyse a run directory and report on it.")
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR")
    master_help = "Spark master, or sc://HOST:PORT of a Spark Connect server (default: local[2])"
    parser.add_argument("--master", default="local[2]", help=master_help)
    parser.add_argument("--allow", type=Path, metavar="FILE", help="anomalies to live with, each until a day (YAML)")
    options = parser.parse_args(arguments)
    try:
        allowances = Allowances(read_allowances(options.allow) if options.allow else ())
        run = read_run(options.run_dir)
        require_what_it_takes(options.master)
    except (RunDirectoryError, AllowanceError) as error:
        print(f"reports: {error}", file=sys.stderr)
        return EXIT_USAGE
    except SparkUnavailableError as error:
        print(f"reports: {error}", file=sys.stderr)
        return EXIT_ENVIRONMENT
    # Imported late, so that a usage error answers at once.
    from reports.analyse import analyse
    from reports.outputs import Judged, exit_code, write_results
    from reports.page import write_page
    from reports.sweep.results import write_figures
    from reports.verdict import judge

    started = time.monotonic()
    print(f"reports: {len(run.cells)} cells, Spark on {options.master}", file=sys.stderr)
    small = parquet_bytes(options.run_dir) < SMALL_RUN_BYTES
    with Session(master=options.master, small=small) as spark:
        facts = analyse(spark, run)
    print(f"reports: analysed after {time.monotonic() - started:.1f} s", file=sys.stderr)
    judged = [Judged(facts=item, verdict=allowances.apply(item.cell.cell_id, judge(item))) for item in facts]
    run = replace(run, notes=(*run.notes, *allowances.notes()))
    write_results(run, judged)
    write_figures(options.run_dir, judged, run.manifest)
    page = write_page(run, judged)
    print(f"reports: page written after {time.monotonic() - started:.1f} s", file=sys.stderr)
    print(page)
    return exit_code(judged)


if __name__ == "__main__":
    sys.exit(main())
