"""`harness explore`: the command and its options; what it does is in explore.py."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.arguments.parameters import ClientCommand, ClientOfOurs


def explore(
    command: ClientCommand = None,
    client: ClientOfOurs = None,
    program: Annotated[
        str | None,
        typer.Option(
            "--program", metavar="COMMAND", help="a program of yours, which reads its address from the environment"
        ),
    ] = None,
    records_before: Annotated[
        int | None,
        typer.Option("--records-before", min=0, max=100_000, help="what the topic of --program holds before; 0"),
    ] = None,
    patience: Annotated[
        str | None,
        typer.Option("--patience", metavar="TIME", help="how long --program may take to end after the healing; 150s"),
    ] = None,
    cluster: Annotated[
        str, typer.Option("--cluster", metavar="KIND", help="reference or kafka; kafka==3.9.1")
    ] = "reference",
    budget: Annotated[str, typer.Option("--budget", metavar="TIME", help="how long to search: 90s, 10m")] = "10m",
    seed: Annotated[int, typer.Option("--seed", min=0, help="equal seeds try the same in the same order")] = 0,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="PART", help="producer, groups, transactions or copying; may be given several times"
        ),
    ] = None,
    again: Annotated[
        Path | None, typer.Option("--again", metavar="FILE", help="only this trial.json of a finding, three times")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            min=1,
            max=32,
            help="trials side by side; default 6 to 24, as the host has processors for; 6 with --program",
        ),
    ] = None,
    run_dir: Annotated[Path | None, typer.Option("--run-dir", help="default runs/<time>-explore")] = None,
    known: Annotated[
        Path | None,
        typer.Option(
            "--known", metavar="FILE", help="findings that are named and do not fail: signature, reason, link"
        ),
    ] = None,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="also the result as JUnit")] = None,
    corpus: Annotated[
        Path | None,
        typer.Option("--corpus", metavar="DIR", help="what searches before have met and found; it is extended"),
    ] = None,
) -> None:
    """Find by itself which answers, silences and orders of calls a client does not stand; confirm them, and make them
    small. Exit code 1 if something was found."""
    from harness.cli.explore.explore import Question, explore_client
    from harness.cli.explore.own_program import PATIENCE, Own, explore_program

    question = Question(
        command=tuple(command or ()),
        client=client,
        engine=cluster,
        budget=budget,
        seed=seed,
        only=tuple(only or ()),
        again=again,
        jobs=jobs,
        run_dir=run_dir,
        known=known,
        junit=junit,
        corpus=corpus,
    )
    if program is not None:
        own = Own(command=program, records_before=records_before or 0, patience=patience or PATIENCE)
        raise typer.Exit(explore_program(question, own))
    for option, value in (("--records-before", records_before), ("--patience", patience)):
        if value is not None:
            raise typer.BadParameter(f"{option} belongs to --program")
    raise typer.Exit(explore_client(question))
