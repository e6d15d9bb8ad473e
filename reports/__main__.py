"""`python -m reports RUN_DIR [--master local[2]]`: analyse a run directory, write its results and its page.

Data (path of the page) on stdout, progress on stderr. Exit: 0 pass, 1 fail, 4 inconclusive, 2 usage, 3 environment,
5 an error of the analysis itself, 130 interrupted. Only a verdict ends with 0, 1 or 4. So this module imports almost
nothing, and if a broken installation raises later, that is reported like any other error.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from reports.read.errors import EXIT_ENVIRONMENT, EXIT_ERROR, EXIT_INTERRUPTED


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code; every problem is told on stderr."""
    try:
        for stream in (sys.stdout, sys.stderr):  # a name that the terminal cannot show must not end the program
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        from reports.command import execute

        return execute(arguments)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except ImportError as error:
        traceback.print_exc()
        print(f"reports: the installation is not whole ({error}): pip install --force-reinstall kafka-harness",
              file=sys.stderr)  # fmt: skip
        return EXIT_ENVIRONMENT
    except Exception as error:  # a process entry: a defect of the harness is shown in full, with its exit code
        from runlog.files.redaction import hidden_text

        sys.stderr.write(hidden_text("".join(traceback.format_exception(error))))
        return EXIT_ERROR


def end_with(code: int) -> NoReturn:
    """Ends the process now. All is written and told by then, and nothing that a library still does can hold it up."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads any more
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    end_with(main())
