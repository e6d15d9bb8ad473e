"""A file without a name, for what must have a path and may never be on a disk.

Brokers and clients both need it, and neither imports the other. Shown by tests/broker_client/test_client_tls.py.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def unnamed_file(text: str) -> Iterator[str]:
    """A path to a text in memory, because Python's interface to OpenSSL takes a key only from a path. The text is never
    on a disk."""
    descriptor = os.memfd_create("keystore", os.MFD_CLOEXEC)
    try:
        left = memoryview(text.encode())
        while left:
            left = left[os.write(descriptor, left) :]
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
