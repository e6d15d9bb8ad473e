"""The client that a command talks with itself: one of ours by name, in a version if one is given, or a program."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from harness.errors import UsageError
from harness.run.generator.client_runtime import client_program
from workloads.clients.process.build import Built
from workloads.clients.process.messages import Ready
from workloads.clients.process.peer import Peer, PeerLost


def own_client(command: Sequence[str], client: str | None, *, what: str, asked_by: str) -> Built:
    """`command`: its words, or one text that a shell would split. `what` ("be searched") and `asked_by` ("explore") are
    for messages. UsageError if there is none, EnvironmentFault if it cannot be built."""
    if client is None:
        words = shlex.split(command[0]) if len(command) == 1 else list(command)
        if not words:
            raise UsageError(f"{asked_by}: no client, expected how it is started, ./my-client, or --client NAME")
        return Built(command=tuple(words))
    if command:
        raise UsageError(f"{asked_by}: both --client {client} and a command; expected one of them")
    return client_program(client, what=what)


def first_line(client: Built) -> Ready:
    """What it tells at its start. UsageError if it tells nothing, or is no client."""
    words = client.command
    hint = f"; `harness client check {shlex.join(words)}` says what is wrong with it"
    try:
        peer = Peer(words, environment=client.environment)
    except PeerLost as error:
        raise UsageError(f"{error}{hint}") from error
    try:
        return peer.wait_ready()
    except PeerLost as error:
        raise UsageError(f"{error}{hint}") from error
    finally:
        peer.kill()


def words_for(command: Sequence[str], client: str | None) -> str:
    """How the client stands in a command line of this program: `--client NAME`, or `-- PROGRAM ...`."""
    if client is not None:
        return f"--client {shlex.quote(client)}"
    return f"-- {command[0] if len(command) == 1 else shlex.join(command)}"


def words_from_anywhere(command: Sequence[str], client: str | None) -> str:
    """As `words_for`, for who may be in another directory: files of this one are named in full."""
    if client is not None:
        return words_for(command, client)
    words = shlex.split(command[0]) if len(command) == 1 else list(command)
    full = [_in_full(word) if number or "/" in word else word for number, word in enumerate(words)]
    return words_for(full if len(full) > 1 else [shlex.quote(word) for word in full], None)


def _in_full(word: str) -> str:
    return str(Path(word).absolute()) if Path(word).is_file() else word
