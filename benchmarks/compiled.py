"""Programs in C beside the benchmarks, compiled when they are needed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from harness.errors import EnvironmentFault

COMPILERS: Final = ("cc", "gcc", "clang")


def compiler() -> str | None:
    return next((found for name in COMPILERS if (found := shutil.which(name))), None)


def compiled(source: Path, directory: Path, *libraries: Path) -> str:
    """The path of the program, in `directory`, linked with shared `libraries` where they lie. EnvironmentFault if there
    is no compiler, or it fails."""
    found = compiler()
    if found is None:
        raise EnvironmentFault(f"{source.name}: expected a C compiler ({', '.join(COMPILERS)}), found none")
    target = directory / source.stem
    command = [found, "-O2", "-pthread", "-o", str(target), str(source)]
    command += [word for library in libraries for word in (str(library), f"-Wl,-rpath,{library.parent}")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise EnvironmentFault(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
    return str(target)
