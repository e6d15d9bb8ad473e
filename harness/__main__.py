"""The entry point of `harness` and of `python -m harness`: a Ctrl-C during the imports ends it as any other does."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Exit with what the command line says; 130 for an interrupt at any time."""
    try:
        from harness.cli.main import execute

        code = int(execute())
    except KeyboardInterrupt:
        code = 130
    # All is done and told: a further Ctrl-C while the interpreter ends would only print a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


if __name__ == "__main__":
    main()
