"""Become another program that dies with its parent: `python -I -S launcher.py PARENT_PID COMMAND...`.

If PR_SET_PDEATHSIG is set, Linux kills a process when its parent *thread* ends. The setting survives execve. It is set
here, after the fork and in a program with one thread, because doing so between fork and exec of a threaded parent may
deadlock. This file imports only the standard library and is run by path, because it must start in some 20 ms.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent_pid = int(sys.argv[1])
    command = sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) was refused")
    if os.getppid() != parent_pid:
        # The parent died between the fork and the prctl, so it would not stop us later.
        sys.exit(0)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
