"""Compiles our program over librdkafka by cargo: this is what the client `librdkafka` and its versions are made by.

It is two minutes of processor time (librdkafka 1.8.2 and 1.9.2: 115 and 129 s), of which a busy host gives little. So
what cargo has compiled stays in the cache: a build that was interrupted, or whose time was over, goes on where it was.
All versions have one directory. They share little, because each asks for other features of the crates. Shown by
tests/workloads/test_workloads_versions_compiled.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from workloads.clients.process.making import COMPILE_TIMEOUT_S, alone, run_step

_KEPT: Final = ".compiled-librdkafka"
# Optimised as a distribution does it, and without debugging information, which nobody reads here: cc comes from the
# crates, whose own flags are before these. make builds librdkafka's interface for C++ too, which nobody links.
_FLAGS: Final = {"CFLAGS": "-g0", "CXXFLAGS": "-g0 -O0"}


def compile_rust(client: str, directory: Path, options: Sequence[str] = ()) -> None:
    """Leaves the program `client` in the directory, where its sources are. BuildError says why it cannot."""
    kept = directory.parent / _KEPT
    with alone(kept):  # cargo would give two versions the same program
        environment = {**_FLAGS, "CARGO_TARGET_DIR": str(kept)}
        run_step(
            client, ["cargo", "build", "--release", *options], directory,
            environment=environment, timeout_s=COMPILE_TIMEOUT_S,
        )  # fmt: skip
        shutil.move(kept / "release" / "client", directory / "client")
