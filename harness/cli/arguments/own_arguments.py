"""Removes secrets from this process's command line, which everybody on the host can read in /proc.

The arguments are on the stack of the process, at the addresses in /proc/self/stat. Secret parts are overwritten, as
mysql and curl do with their passwords. Until then, for some 0.3 s after the start, they can be read. A file
(`--client-config`, a suite) is the safe place, and a warning tells this to a user who gives a secret here. Linux only.
Shown by tests/harness/test_harness_secrets.py.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Final

from runlog.files.redaction import HIDDEN, Redactor, hidden_arguments, secrets_in_arguments

_ARGUMENTS_BYTES_MAX: Final = 8 << 20  # the kernel's own limit is 6 MB
_ARG_START, _ARG_END = 45, 46  # They count fields of /proc/PID/stat after the command's name (proc(5): 48, 49).
ADVICE: Final = (
    "a secret on the command line can be read by every user of this host while the program starts: put it into a "
    "suite's file, or with --client-config into a file of Kafka's properties"
)


def hide_own_secrets() -> bool:
    """True if there was something to hide. The number of words stays the same. A replacement that is too long
    is cut."""
    try:
        raw = Path("/proc/self/cmdline").read_bytes()
        start, end = _place()
    except (OSError, ValueError, IndexError):
        return False
    words = [word.decode("utf-8", "surrogateescape") for word in raw.split(b"\0")]
    redactor = Redactor(secrets_in_arguments(words))
    shown = [redactor.values_out(word) for word in hidden_arguments(words)]
    if shown == words or not 0 < end - start <= _ARGUMENTS_BYTES_MAX or end - start != len(raw):
        return False
    offset = start
    for word, replacement in zip(raw.split(b"\0"), shown, strict=True):
        new = replacement.encode("utf-8", "surrogateescape")
        if new != word:
            fitting = new if len(new) <= len(word) else HIDDEN.encode()[: len(word)]
            ctypes.memmove(offset, fitting.ljust(len(word)), len(word))
        offset += len(word) + 1
    return True


def _place() -> tuple[int, int]:
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return int(fields[_ARG_START]), int(fields[_ARG_END])
