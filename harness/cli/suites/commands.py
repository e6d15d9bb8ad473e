"""The commands about suites and scenarios: `validate`, `init`, `list`, `schema`. Here are their options only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def validate(files: Annotated[list[str], typer.Argument(metavar="FILE...", help="suites or scenarios, YAML")]) -> None:
    """Check suites and scenarios; errors name file, line and the nearest right key."""
    from harness.cli.suites.inspect import validate_files

    raise typer.Exit(validate_files(files))


def init(
    what: Annotated[str, typer.Argument(metavar="suite|scenario|test|client")],
    path: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="default: a name of its own, here")] = None,
    language: Annotated[
        str | None, typer.Option("--language", metavar="NAME", help="of the client; an unknown one lists all")
    ] = None,
) -> None:
    """Write a complete file to begin with: a suite, a scenario, a test for pytest, or the directory of a client."""
    from harness.cli.suites.init import write_client, write_example

    if what == "client":
        write_client(language, path)
    else:
        write_example(what, path, language=language)


def list_(
    what: Annotated[str, typer.Argument(metavar="scenarios|suites|faults|clients|clusters")],
    name: Annotated[str | None, typer.Argument(metavar="[FAULT]", help="explain this fault")] = None,
    json_: Annotated[bool, typer.Option("--json", help="as JSON")] = False,
) -> None:
    """What there is to choose from; `list faults NAME` explains one."""
    from harness.cli.suites.inspect import list_things

    list_things(what, as_json=json_, name=name)


def schema(what: Annotated[str, typer.Argument(metavar="suite|scenario|runlog|allowances|verdicts")] = "suite") -> None:
    """JSON Schema of suites, scenarios or allowances for an editor, or of verdicts.json; or the run log's columns."""
    from harness.cli.suites.inspect import print_schema

    print_schema(what)
