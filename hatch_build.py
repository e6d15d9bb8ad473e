"""Builds the compiled part, broker/wire/_record_check.c, where a C compiler and Python's headers are.

The part is optional (docs/decisions/0009-compiled-part.md): nothing that goes wrong here fails an installation. An
editable installation gets the library beside its source, a wheel gets it inside and the platform's tag with it. By
hand, beside its source: `python hatch_build.py`. CC and CFLAGS are those of the environment.
Shown by tests/repository/test_repository_compiled.py.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
SOURCE = Path("broker/wire/_record_check.c")
LIBRARY = Path("broker/wire/_record_check.abi3.so")
WHEEL_TAG = "cp311-abi3"
COMPILE_TIMEOUT_S = 120


class CompiledPart(BuildHookInterface):  # type: ignore[type-arg]
    """Hatchling calls `initialize` before it collects files, `finalize` after the wheel is written."""

    _directory: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            self._tell(build(ROOT / LIBRARY))
            return
        self._directory = Path(tempfile.mkdtemp(prefix="kafka-harness-build-"))
        library = self._directory / LIBRARY.name
        why_not = build(library)
        self._tell(why_not)
        if why_not is None:
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["force_include"][str(library)] = str(LIBRARY)
            build_data["pure_python"] = False
            build_data["tag"] = f"{WHEEL_TAG}-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _tell(self, why_not: str | None) -> None:
        if why_not is not None:
            self.app.display_warning(_without(why_not))


def build(target: Path) -> str | None:
    """Compiles the part into `target`; returns None, or why not in a line. An old `target` does not stay then."""
    why_not = _unfit() or _compile(target)
    if why_not is not None:
        target.unlink(missing_ok=True)
    return why_not


def _unfit() -> str | None:
    if sys.platform != "linux" or sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "only for CPython on Linux, with its lock"
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
        return "no Python.h"
    return None


def _compile(target: Path) -> str | None:
    source = ROOT / SOURCE
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    wanted = os.environ.get("CC")
    candidates = [wanted] if wanted else [sysconfig.get_config_var("CC") or "cc", "cc", "gcc", "clang"]
    compiler = next((each for each in map(shlex.split, candidates) if shutil.which(each[0])), None)
    if compiler is None:
        return f"no C compiler ({candidates[0]})"
    # Beside the target and renamed: a process that has the old library open keeps it whole.
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    command = [
        *compiler,
        *("-std=c11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared"),
        *shlex.split(os.environ.get("CFLAGS", "")),
        f'-DSOURCE_SHA256="{digest}"',
        f"-I{sysconfig.get_paths()['include']}",
        *("-o", str(partial), str(source)),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
        if done.returncode != 0 or not partial.is_file():
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            return f"{shlex.join(compiler)}: {lines[-1]}"
        partial.replace(target)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{shlex.join(compiler)}: {error}"
    finally:
        partial.unlink(missing_ok=True)
    return None


def _without(why_not: str) -> str:
    return f"kafka-harness without its compiled part, records are checked in Python: {why_not}"


if __name__ == "__main__":
    reason = build(ROOT / LIBRARY)
    print(_without(reason) if reason else LIBRARY)
