"""Builds the shared library of interposer.c with the host's C compiler. Its file name has the hash of the source."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("interposer.c")
COMPILERS: Final = ("cc", "gcc", "clang")
FLAGS: Final = ("-O2", "-shared", "-fPIC")
_TIMEOUT_S: Final = 60.0


class CannotBuild(Exception):
    """There is no interposer on this host. The message says why and what would help."""


@functools.cache
def problem() -> str:
    """Why this host has no interposer. Empty if it has a compiler, but even then the build may fail."""
    if not sys.platform.startswith("linux"):
        return f"the interposer needs Linux (LD_PRELOAD and /proc), this is {sys.platform}"
    if _compiler() is None:
        return f"the interposer is C, and none of {', '.join(COMPILERS)} is on PATH: install a C compiler"
    return ""


def problem_of_engine(engine: str) -> str:
    """Only Apache Kafka's processes need the interposer, because reference brokers have controls of their own."""
    return problem() if engine == "kafka" else ""


def _compiler() -> str | None:
    return next((found for name in COMPILERS if (found := shutil.which(name))), None)


def library(directory: Path) -> Path:
    """The path of the library in `directory`. Builds it if it does not exist yet. Raises CannotBuild."""
    if reason := problem():
        raise CannotBuild(reason)
    source = SOURCE.read_bytes()
    target = directory / f"interposer-{hashlib.sha256(source).hexdigest()[:16]}.so"
    if target.is_file():
        return target
    directory.mkdir(parents=True, exist_ok=True)
    compiler = _compiler()
    assert compiler is not None, "problem() has looked"
    with tempfile.TemporaryDirectory(dir=directory) as temporary:
        built = Path(temporary) / "interposer.so"
        command = [compiler, *FLAGS, "-o", str(built), str(SOURCE), "-ldl"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotBuild(f"{' '.join(command)}: {error}") from error
        if done.returncode != 0:
            raise CannotBuild(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        os.replace(built, target)  # two runs may build at the same time
    return target
