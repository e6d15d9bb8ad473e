"""A small disk for the state of a worker or for a run: full, or with a device that takes no more.

These are real file systems, so it needs root. The second is an ext2 that has room, on a loop device whose own file has
none. What the kernel answers then is its matter: Linux 6.18 answers ENOSPC, later than a full file system does. It is
no test of EIO.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Final

SIZE_MIB: Final = 24
_WAIT_S: Final = 60.0


def why_no_disk() -> str:
    """Why none can be made here; empty if one can."""
    if os.geteuid() != 0:
        return "mounting needs root"
    return "" if Path("/dev/loop-control").exists() else "there is no loop device here"


class SmallDisk:
    """`path`: where it is. `close` takes it away."""

    def __init__(self, directory: Path, *, fails: bool, size_mib: int = SIZE_MIB) -> None:
        self._size_mib = size_mib
        self._backing = directory / "disk"
        self._backing.mkdir()
        self._mounted: list[Path] = []
        try:
            self._mount("-t", "tmpfs", "-o", f"size={size_mib}m,mode=700", "none", at=self._backing)
            self.path = self._with_ext2(directory) if fails else self._backing
        except BaseException:
            self.close()
            raise

    def _with_ext2(self, directory: Path) -> Path:
        image, path = self._backing / "image", directory / "failing"
        path.mkdir()
        with image.open("wb") as file:
            file.truncate(2 * self._size_mib << 20)  # it has no blocks yet, and gets them as they are written
        subprocess.run(["mkfs.ext2", "-q", "-m", "0", str(image)], check=True, timeout=_WAIT_S)
        self._mount("-o", "loop,sync", str(image), at=path)
        return path

    def _mount(self, *arguments: str, at: Path) -> None:
        subprocess.run(["mount", *arguments, str(at)], check=True, timeout=_WAIT_S)
        self._mounted.append(at)

    def spoil(self) -> None:
        """From now on there is no room for a byte."""
        found = os.statvfs(self._backing)
        with (self._backing / "filler").open("ab", buffering=0) as file, contextlib.suppress(OSError):
            with contextlib.suppress(OSError):  # at once, because who writes beside us is quick
                os.posix_fallocate(file.fileno(), 0, found.f_bavail * found.f_frsize)
            file.seek(0, os.SEEK_END)
            while True:
                file.write(b"x" * 4096)

    def mend(self) -> None:
        (self._backing / "filler").unlink(missing_ok=True)

    def close(self) -> None:
        while self._mounted:
            subprocess.run(["umount", "-l", str(self._mounted.pop())], check=True, timeout=_WAIT_S)
