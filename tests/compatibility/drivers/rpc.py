"""The other end of driver.py for clients of Python: reads calls, runs them, answers on standard output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any


class UnsupportedError(Exception):
    """What the client lacks, in words for the table."""


def need(is_there: bool, what: str) -> None:
    if not is_there:
        raise UnsupportedError(what)


def serve(client: str, commands: Mapping[str, Callable[..., Any]]) -> None:
    """Until standard input ends. A call that is not among `commands` is one that the client has nothing for."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints goes to the log
    for line in sys.stdin:
        request = json.loads(line)
        name = request.pop("call")
        try:
            if name not in commands:
                raise UnsupportedError(f"{client} has no call for it ({name})")
            answer = {"result": commands[name](**request)}
        except UnsupportedError as error:
            answer = {"unsupported": str(error)}
        except Exception as error:  # everything is an answer here
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def data(value: str | None) -> bytes | None:
    return None if value is None else value.encode()
