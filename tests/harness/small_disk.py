"""A small disk for the state of a worker or for a run: it gets full, or its device fails.

These are real file systems, so it needs root. The first is a tmpfs without room for a byte (ENOSPC). The second is an
ext4 on a loop device that is shut down as ext4 does it when its device is gone: whatever is written, synced, opened or
renamed from then on is EIO, and what was written before stays on the device.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

SIZE_MIB: Final = 24
_WAIT_S: Final = 60.0
_SHUT_DOWN: Final = 0x8004587D  # EXT4_IOC_SHUTDOWN, in ext4(5) and fs/ext4/ext4.h: _IOR('X', 125, __u32)
_WITH_ALL_WRITTEN: Final = 0  # EXT4_GOING_FLAGS_DEFAULT: what was written before is on the device


def why_no_disk() -> str:
    """Why none can be made here; empty if one can."""
    if os.geteuid() != 0:
        return "mounting needs root"
    return "" if Path("/dev/loop-control").exists() else "there is no loop device here"


class SmallDisk:
    """`path`: where it is. `fails`: its device fails, else it gets full. `close` takes it away."""

    def __init__(self, directory: Path, *, fails: bool, size_mib: int = SIZE_MIB) -> None:
        self.path = directory / "disk"
        self.path.mkdir()
        self._size_mib, self._fails = size_mib, fails
        self._image = directory / "image"
        self._mounted = self._is_spoilt = False
        if fails:
            with self._image.open("wb") as file:
                file.truncate(2 * size_mib << 20)  # it has no blocks yet, and gets them as they are written
            subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(self._image)], check=True, timeout=_WAIT_S)
        self._mount()

    def _mount(self) -> None:
        how = (
            ["-o", "loop", str(self._image)]
            if self._fails
            else ["-t", "tmpfs", "-o", f"size={self._size_mib}m,mode=700", "none"]
        )
        subprocess.run(["mount", *how, str(self.path)], check=True, timeout=_WAIT_S)
        self._mounted = True

    def _unmount(self) -> None:
        """Whoever has a file open there keeps it."""
        subprocess.run(["umount", "-l", str(self.path)], check=True, timeout=_WAIT_S)
        self._mounted = False

    def spoil(self) -> None:
        """From now on nothing can be written."""
        self._is_spoilt = True
        if self._fails:
            descriptor = os.open(self.path, os.O_RDONLY)
            try:
                fcntl.ioctl(descriptor, _SHUT_DOWN, struct.pack("I", _WITH_ALL_WRITTEN))
            finally:
                os.close(descriptor)
        else:
            self._fill()

    def _fill(self) -> None:
        found = os.statvfs(self.path)
        with (self.path / "filler").open("ab", buffering=0) as file, contextlib.suppress(OSError):
            with contextlib.suppress(OSError):  # at once, because who writes beside us is quick
                os.posix_fallocate(file.fileno(), 0, found.f_bavail * found.f_frsize)
            file.seek(0, os.SEEK_END)
            while True:
                file.write(b"x" * 4096)

    def mend(self) -> None:
        """There is room again, or another device with the same content. Who has a file of the old one open must be
        started again."""
        if not self._is_spoilt:
            return
        self._is_spoilt = False
        if not self._fails:
            (self.path / "filler").unlink(missing_ok=True)
            return
        self._unmount()
        # A copy: as long as a file is open there, the kernel would give the failed file system for the same device.
        self._image = Path(shutil.copy(self._image, self._image.with_suffix(".new")))
        self._mount()

    def close(self) -> None:
        if self._mounted:
            self._unmount()
