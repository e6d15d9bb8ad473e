"""`harness tape`: the commands and their options; what they do is in tape.py and tape_play.py."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.arguments.parameters import ClientCommand, ClientOfOurs

tape_app = typer.Typer(
    help="A fault of a client, shown by a scripted peer and no broker (docs/guide/tape.md).", no_args_is_help=True
)
_Patience = Annotated[
    str, typer.Option("--patience", metavar="TIME", help="how long a client may stand still, from 1s on")
]


@tape_app.command("record")
def tape_record(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="the tape that is written")],
    command: ClientCommand = None,
    trial: Annotated[
        Path, typer.Option("--trial", metavar="FILE", help="trial.json of a finding of `harness explore`")
    ] = Path("trial.json"),
    client: ClientOfOurs = None,
    cluster: Annotated[str, typer.Option("--cluster", metavar="KIND", help="reference or kafka")] = "reference",
    patience: _Patience = "6s",
) -> None:
    """Record what the client sees in this trial, and cut it down to a tape. Exit code 4 if the client does not show it
    again, or not against a scripted peer."""
    from harness.cli.explore.tape import record

    raise typer.Exit(record(file, command or [], trial_file=trial, client=client, engine=cluster, patience=patience))


@tape_app.command("play")
def tape_play(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a tape")],
    command: ClientCommand = None,
    client: ClientOfOurs = None,
    patience: _Patience = "6s",
) -> None:
    """Run the client against the tape, and beside it against the same peer without its fault. Exit code 1 if it shows
    what the tape claims, or anything else that is wrong; 4 if this proves nothing."""
    from harness.cli.explore.tape_play import play_tape

    raise typer.Exit(play_tape(file, command or [], client=client, patience=patience))
