"""`harness tape`: the commands and their options; what they do is in tape.py."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

tape_app = typer.Typer(
    help="A fault of a client, shown by a scripted peer and no broker (docs/guide/tape.md).", no_args_is_help=True
)
_Command = Annotated[
    list[str] | None,
    typer.Argument(metavar="[COMMAND...]", help="how the client is started; options of its own after --"),
]
_Client = Annotated[
    str | None,
    typer.Option("--client", metavar="NAME", help="one of ours instead of a command: kafkajs, confluent==2.4.0"),
]


@tape_app.command("record")
def tape_record(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="the tape that is written")],
    command: _Command = None,
    trial: Annotated[
        Path, typer.Option("--trial", metavar="FILE", help="trial.json of a finding of `harness explore`")
    ] = Path("trial.json"),
    client: _Client = None,
    cluster: Annotated[str, typer.Option("--cluster", metavar="KIND", help="reference or kafka")] = "reference",
) -> None:
    """Record what the client sees in this trial, and cut it down to a tape. Exit code 4 if the client does not show it
    again, or not against a scripted peer."""
    from harness.cli.tape import record

    raise typer.Exit(record(file, command or [], trial_file=trial, client=client, engine=cluster))


@tape_app.command("play")
def tape_play(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a tape")],
    command: _Command = None,
    client: _Client = None,
    patience: Annotated[
        str, typer.Option("--patience", metavar="TIME", help="how long a client may stand still, from 1s on")
    ] = "6s",
) -> None:
    """Run the client against the tape, and beside it against the same peer without its fault. Exit code 1 if it shows
    what the tape claims, or anything else that is wrong; 4 if this proves nothing."""
    from harness.cli.tape import play_tape

    raise typer.Exit(play_tape(file, command or [], client=client, patience=patience))
