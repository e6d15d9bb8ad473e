"""How a tool is run: its class, its arguments, its standard input; what it printed, or how it failed.

All run in one JVM (drivers/java/Driver.java), since starting one takes seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tests.compatibility.driver import Driver
from tests.compatibility.trial import NOT_IMPLEMENTED
from tests.compatibility.world import World
from tests.patience import wait_until

TOOL_TIMEOUT_S = 240.0
SHOWN_CHARACTERS = 400
NAMES_ERROR = re.compile(r"org\.apache\.kafka\.common\.(errors|config)\.|does not support")


class ToolFailure(Exception):
    """Exit code and the end of what was printed."""


class Toolbox:
    """Tools on one world. What they write is judged by World or by another tool that reads it."""

    def __init__(self, driver: Driver, world: World) -> None:
        self._driver = driver
        self.world = world

    def run(
        self, tool: str, *arguments: object, server: str = "--bootstrap-server", command: str = "", stdin: str = ""
    ) -> str:
        """What it printed; it must end with 0. `command` goes before the option `server`, '' leaves either out."""
        name = tool if tool.startswith("kafka.") else f"org.apache.kafka.tools.{tool}"
        given = [*([command] if command else []), *([server, self.world.bootstrap] if server else [])]
        given += map(str, arguments)
        found = self._driver.call("run", TOOL_TIMEOUT_S, tool=name, arguments=given, stdin=stdin)
        if found["code"]:
            raise ToolFailure(f"exit {found['code']}: {_telling(found['out'])}")
        return str(found["out"])

    def until(self, is_expected: Callable[[str], object], tool: str, *arguments: object) -> str:
        """What a tool prints that only reads, once it is as expected. The broker that it asks may hear of a change a
        moment after the controller has made it, and what a coordinator does takes its time."""
        last = ""

        def has_come() -> bool:
            nonlocal last
            try:
                last = self.run(tool, *arguments)
            except ToolFailure as failure:
                if NOT_IMPLEMENTED.search(str(failure)):
                    raise
                last = str(failure)
                return False
            return bool(is_expected(last))

        try:
            wait_until(has_come, f"what {tool} {' '.join(map(str, arguments))} should print")
        except AssertionError as error:
            raise AssertionError(f"{error}: {last}") from error
        return last

    def file(self, name: str, text: str) -> Path:
        path = self.world.directory / name
        path.write_text(text)
        return path

    def topic_of(self, count: int) -> str:
        """A topic of one partition that holds the values 0, 1, 2, ..."""
        topic = self.world.topic()
        self.run("VerifiableProducer", "--topic", topic, "--max-messages", count)
        return topic


def _telling(printed: str) -> str:
    """The last line that names an error, else the end."""
    lines = [line.strip() for line in printed.splitlines()]
    named = [line for line in lines if NAMES_ERROR.search(line) and not line.startswith("at ")]
    return (named[-1] if named else printed.strip())[-SHOWN_CHARACTERS:]


Attempt: TypeAlias = Callable[[Toolbox], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    name: str  # that of Kafka's script, without .sh
    asked: str  # what the table says of the attempt
    attempt: Attempt
