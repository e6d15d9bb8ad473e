"""Kafka's own tools against three reference brokers, in one JVM: each passes, or is refused for what the page names."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from harness.clusters.kafka.jars import has_jars, jar_directory
from tests.compatibility import page
from tests.compatibility.tools import TOOLS
from tests.compatibility.tools.run import NAME, toolbox
from tests.compatibility.tools.toolbox import Tool, Toolbox, ToolFailure
from tests.compatibility.trial import NOT_IMPLEMENTED
from tests.compatibility.world import World

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.skipif(not has_jars(jar_directory()), reason="no Kafka jars: make setup-dev"),
    pytest.mark.skipif(shutil.which("javac") is None, reason="no JDK"),
]


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolbox]:
    with World(tmp_path_factory.mktemp("tools")) as world, toolbox(world) as made:
        yield made


@pytest.mark.parametrize("tool", TOOLS, ids=[tool.name for tool in TOOLS])
def test_tool_does_what_the_page_says(box: Toolbox, tool: Tool) -> None:
    (expected,) = (cell.state for cell in page.load()[NAME].cells if cell.feature == tool.name)
    if expected == "passed":
        tool.attempt(box)
    else:
        with pytest.raises(ToolFailure, match=NOT_IMPLEMENTED):
            tool.attempt(box)
