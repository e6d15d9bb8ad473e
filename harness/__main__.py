"""The entry point of `harness` and of `python -m harness`: a Ctrl-C during the imports ends it as any other does.

No exception ends it with 1, which says that a check failed: what a broken installation raises is told as such.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback

from harness.cli.own_arguments import ADVICE, hide_own_secrets


def main() -> None:
    """Exit with what the command line says; 130 for an interrupt at any time."""
    try:
        for stream in (sys.stdout, sys.stderr):  # a name that the terminal cannot show must not end the program
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        os.umask(0o077)  # for all that is written by this process and by those that it starts
        if hide_own_secrets():
            sys.stderr.write(f"harness: {ADVICE}\n")
        from harness.cli.main import execute

        code = int(execute())
    except KeyboardInterrupt:
        code = 130
    except ImportError as error:
        traceback.print_exc()
        print(f"harness: the installation is not whole ({error}): pip install --force-reinstall kafka-harness",
              file=sys.stderr)  # fmt: skip
        code = 3
    except Exception:  # a process entry: shown whole, with the code of an error of ours
        traceback.print_exc()
        code = 5
    # All is done and told: a further Ctrl-C while the interpreter ends would only print a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


if __name__ == "__main__":
    main()
