"""The entry point of `harness` and of `python -m harness`. A Ctrl-C during the imports ends the program like any other
Ctrl-C.

No exception ends it with exit code 1, because 1 means that a check failed. An error of a broken installation is
reported as such.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback

from harness.cli.arguments.own_arguments import ADVICE, hide_own_secrets


def main() -> None:
    """Exit with the code of the command line; 130 for an interrupt at any time."""
    try:
        for stream in (sys.stdout, sys.stderr):  # a name that the terminal cannot show must not end the program
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        os.umask(0o077)  # It counts for everything that this process and its children write.
        if hide_own_secrets():
            sys.stderr.write(f"harness: {ADVICE}\n")
        from harness.cli.main import execute

        code = int(execute())
    except KeyboardInterrupt:
        code = 130
    except ImportError as error:
        traceback.print_exc()
        print(f"harness: the installation is not whole ({error}): install the package again, "
              "from the checkout or the wheel that it came from",
              file=sys.stderr)  # fmt: skip
        code = 3
    except Exception:  # a process entry: a defect of the harness is shown in full, with its exit code
        traceback.print_exc()
        code = 5
    # Everything is done and reported. A further Ctrl-C while the interpreter ends would only print a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


if __name__ == "__main__":
    main()
