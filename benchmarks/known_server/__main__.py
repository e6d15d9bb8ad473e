"""Does the engine measure what is there? It measures a real server of known behaviour, many times.

    python -m benchmarks.known_server [--trials 100] [--rounds 96] [--searches 10]

The server is a reference broker behind a relay. The relay stalls, delays and limits by a seeded plan (`plan`, `relay`).
Each trial runs the product as users run it. The truth is computed from the plan alone (`trials`). Prints each claim and
how often it held, writes results/<date>-known-server.json and .md, and ends with 1 if a claim does not hold.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.claims import Claim
from benchmarks.host_facts import host_facts
from benchmarks.known_server.relay import KnownServer
from benchmarks.known_server.trials import effects, limits, percentiles

RESULTS: Final = Path(__file__).parents[1] / "results"


def render(claims: Sequence[Claim], *, command: str, date: str, minutes: float, host: dict[str, str]) -> str:
    """The Markdown page. Pure."""
    lines = [
        "# The engine against a server of known behaviour",
        "",
        f"`{command}`, {date}, {minutes:.0f} minutes. How the truth is made: benchmarks/known_server.",
        "",
        "| claim | held | asked for | |",
        "|---|---|---|---|",
        *(_row(claim) for claim in claims),
        "",
        "A share holds if it is within three standard errors of the bound, which is what so many trials can tell.",
        "",
        *(f"- {name}: {value}" for name, value in host.items()),
    ]
    return "\n".join(lines) + "\n"


def _row(claim: Claim) -> str:
    asked = f"at least {claim.at_least:.0%}" if claim.at_least else f"at most {claim.at_most:.0%}"
    return f"| {claim.text} | {claim.count} of {claim.total} | {asked} | {'holds' if claim.holds else '**does not**'} |"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The engine against a server of known behaviour.")
    parser.add_argument("--trials", type=int, default=100, help="cells under seeded stalls, at most 100")
    parser.add_argument("--rounds", type=int, default=96, help="of a sweep with a planted effect of 10 %%, at most 100")
    parser.add_argument("--searches", type=int, default=10, help="searches for a planted capacity")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    started_s = time.monotonic()
    claims: list[Claim] = []
    with tempfile.TemporaryDirectory(prefix="known-server-") as temporary:
        directory = Path(temporary)
        host = host_facts(directory)
        with KnownServer(directory / "server") as server:
            for trials, count in ((percentiles, options.trials), (effects, options.rounds), (limits, options.searches)):
                for claim in trials(server, directory, count) if count else ():
                    claims.append(claim)
                    print(_row(claim), flush=True)
    document = {
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["python", "-m", "benchmarks.known_server", *given]),
        "minutes": round((time.monotonic() - started_s) / 60, 1),
        "host": host,
    }
    options.results.mkdir(parents=True, exist_ok=True)
    stem = options.results / f"{document['date']}-known-server"
    stem.with_suffix(".json").write_text(
        json.dumps({**document, "claims": [{**asdict(claim), "holds": claim.holds} for claim in claims]}, indent=2)
        + "\n"
    )
    stem.with_suffix(".md").write_text(
        render(
            claims,
            command=str(document["command"]),
            date=str(document["date"]),
            minutes=float(str(document["minutes"])),
            host=host,
        )
    )
    print(stem.with_suffix(".md"))
    return 0 if all(claim.holds for claim in claims) else 1


if __name__ == "__main__":
    sys.exit(main())
