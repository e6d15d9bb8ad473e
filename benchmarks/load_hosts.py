"""Load hosts: whether stated bounds of clocks hold, and whether every record of millions is accounted for.

    python -m benchmarks.load_hosts [--only clocks|records] [--trials 100] [--records 10000000] [--rate 45000]

`clocks` (root: it makes time namespaces) is in load_host_clocks.py, `records` in load_host_records.py.

Writes results/<date>-load-hosts-<section>.json and .md. Shown by tests/benchmarks/test_benchmarks_load_hosts.py.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from benchmarks.host_facts import host_facts
from benchmarks.load_host_clocks import clock_trials, clocks_page
from benchmarks.load_host_records import records_page, run_records

RESULTS: Final = Path(__file__).with_name("results")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Clocks and accounting of load hosts.")
    parser.add_argument("--only", choices=("clocks", "records"))
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--rate", type=int, default=45_000, help="records/s of all workers together")
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    date = datetime.date.today().isoformat()
    head = f"`{' '.join(['python -m benchmarks.load_hosts', *given])}`, {date}."
    good = True
    with tempfile.TemporaryDirectory(prefix="load-hosts-") as temporary:
        directory = Path(temporary)
        facts = host_facts(directory)
        head += "\n\n" + "\n".join(f"- {name}: {text}" for name, text in facts.items() if name != "Apache Kafka")
        options.results.mkdir(parents=True, exist_ok=True)
        if options.only != "records":
            trials = []
            for trial in clock_trials(directory, options.trials, options.seed):
                trials.append(trial)
                print(f"{len(trials)} of {options.trials}: {'holds' if trial.holds else trial}", file=sys.stderr)
            good = good and all(trial.holds for trial in trials)
            stem = options.results / f"{date}-load-hosts-clocks"
            document = {"command": given, "host": facts, "trials": [asdict(trial) for trial in trials]}
            _write(stem, document, clocks_page(trials, head))
        if options.only != "clocks":
            found, of_run = run_records(directory, options.records, options.rate, options.record_bytes)
            good = good and found.is_whole
            stem = options.results / f"{date}-load-hosts-records"
            document = {"command": given, "host": facts, "accounting": asdict(found), "run": of_run}
            _write(stem, document, records_page(found, of_run, head))
    return 0 if good else 1


def _write(stem: Path, document: Mapping[str, Any], page: str) -> None:
    stem.with_suffix(".json").write_text(json.dumps(document, indent=2) + "\n")
    stem.with_suffix(".md").write_text(page)
    print(stem.with_suffix(".md"))


if __name__ == "__main__":
    sys.exit(main())
