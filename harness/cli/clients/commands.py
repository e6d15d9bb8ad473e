"""`harness client check`: the command and its options; what it does is in client_check.py."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.arguments.parameters import ClientCommand, ClientOfOurs

client_app = typer.Typer(
    help="Clients that are programs of their own (docs/reference/client-protocol.md).", no_args_is_help=True
)


@client_app.command("check")
def client_check(
    command: ClientCommand = None,
    client: ClientOfOurs = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="TRIAL", help="this trial; may be given several times")
    ] = None,
) -> None:
    """Does a program keep to the client protocol? A minute on a small cluster. Exit code 1 if there is a mistake."""
    from harness.cli.clients.client_check import check

    raise typer.Exit(check(command or [], client=client, only=only or []))
