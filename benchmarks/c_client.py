"""librdkafka driven from C (c_client.c): the load of a user's program, compiled when it is needed.

It is linked with the library that the wheel of confluent-kafka brings, so that both loads run the same version.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from benchmarks.compiled import compiled
from harness.errors import EnvironmentFault

SOURCE = Path(__file__).with_name("c_client.c")


def library() -> Path:
    """librdkafka of the installed confluent-kafka. EnvironmentFault if the wheel keeps it elsewhere."""
    spec = importlib.util.find_spec("confluent_kafka")
    assert spec is not None, "a package that the project requires"
    assert spec.origin is not None, "a package with an __init__"
    directory = Path(spec.origin).parents[1] / "confluent_kafka.libs"
    found = sorted(directory.glob("librdkafka*.so*"))
    if len(found) != 1:
        raise EnvironmentFault(f"{directory}: expected one librdkafka, got {[path.name for path in found]}")
    return found[0]


def client(directory: Path) -> str:
    """The path of the program, compiled into `directory` unless it is there."""
    target = directory / SOURCE.stem
    return str(target) if target.exists() else compiled(SOURCE, directory, library())
