"""Trying Kafka's tools in one JVM: one column of cells, as of a client, with the tool's name as the feature."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from harness.clusters.kafka.jars import VERSION, ensure_jars, java_command
from tests.compatibility.clients import CannotPrepare, compiled
from tests.compatibility.driver import Driver, NoAnswer
from tests.compatibility.tools import TOOLS
from tests.compatibility.tools.toolbox import Tool, Toolbox, ToolFailure
from tests.compatibility.trial import NOT_IMPLEMENTED, REASON_CHARACTERS, Cell, Trial
from tests.compatibility.world import World

NAME = "Kafka's tools"


def prepare() -> tuple[str, ...]:
    """The command of the JVM that runs tools. Raises CannotPrepare, or EnvironmentFault without jars."""
    jars = ensure_jars()
    classes = compiled(f"tools-{VERSION}", jars)
    options: tuple[str, ...] = (
        "-XX:TieredStopAtLevel=1",
        "-Xshare:auto",
        "-Xmx384m",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    )
    options += ("--add-opens", "java.base/java.lang=ALL-UNNAMED")  # Tools.java takes the hooks of a tool's end
    return (java_command(), *options, "-cp", f"{classes}:{jars}/*", "Driver", "tools")


@contextmanager
def toolbox(world: World) -> Iterator[Toolbox]:
    driver = Driver(prepare(), world.bootstrap, world.directory / "tools.log", {})
    try:
        yield Toolbox(driver, world)
    finally:
        driver.close()


def try_tools(world: World, names: Collection[str], tell: Callable[[str], None] = lambda _: None) -> Trial:
    chosen = [tool for tool in TOOLS if tool.name in names]
    cells = []
    try:
        with toolbox(world) as box:
            for tool in chosen:
                cell = _try(tool, box)
                tell(f"{tool.name}: {cell.state} {cell.reason} ({cell.seconds:.1f} s)")
                cells.append(cell)
    except CannotPrepare as error:
        cells = [Cell(feature=tool.name, state="failed", reason=f"not tried: {error}") for tool in chosen]
    return Trial(client=NAME, language="Java", version=VERSION, cells=tuple(cells))


def _try(tool: Tool, box: Toolbox) -> Cell:
    begin = time.monotonic()
    state, reason = "passed", ""
    try:
        tool.attempt(box)
    except (ToolFailure, NoAnswer) as error:
        state, reason = "broker" if NOT_IMPLEMENTED.search(str(error)) else "failed", str(error)
    except Exception as error:  # whatever else goes wrong is this tool's failure
        state, reason = "failed", f"{type(error).__name__}: {error}"
    plain = " ".join(reason.split())[:REASON_CHARACTERS]
    return Cell(feature=tool.name, state=state, reason=plain, seconds=time.monotonic() - begin)
