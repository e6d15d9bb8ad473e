"""The entry point of `harness`: how a command ends, with which exit code, and what it prints about a problem.

Exit codes: 0 pass, 1 fail, 2 usage or configuration, 3 environment, 4 inconclusive, 5 harness error, 130 interrupted.
Shown by tests/harness/test_harness_cli.py.
"""

from __future__ import annotations

import errno
import functools
import sys
import traceback
from collections.abc import Sequence
from typing import Any, Final

import typer

from harness.cli.commands import app
from harness.errors import ExitCode, HarnessError, is_full
from harness.foreign_names import ours_for_option
from harness.terminal.tables import print_fitting
from runlog.files.redaction import Redactor

# Newer versions of typer contain a copy of click, older ones import it. This finds it through the names that typer
# itself exports.
_ClickException: Final[Any] = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")

_HANGING: Final = 2  # Further lines on a terminal begin so far to the right.
_OF_THE_HOST: Final = (errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point of `harness` and of `python -m harness`."""
    sys.exit(int(execute(arguments)))


@functools.cache
def _command() -> Any:  # click's command, of whichever click typer has
    """Made of the functions of all commands, which takes 50 ms: once a process."""
    return typer.main.get_command(app)


def execute(arguments: Sequence[str] | None = None) -> int:
    """The exit code; every problem is told on stderr, and no secret of the command line with it."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    redactor = Redactor.of(arguments=words)
    try:
        result = _command()(args=None if arguments is None else list(arguments), standalone_mode=False)
        return int(result) if isinstance(result, int) else int(ExitCode.PASS)
    except typer.Abort:
        return ExitCode.INTERRUPTED
    except _ClickException as error:
        error.show()
        if ours := ours_for_option(getattr(error, "option_name", "")):
            print_fitting(f"Here it is {ours}", to_stderr=True, hanging=_HANGING)
        return ExitCode.USAGE
    except HarnessError as error:
        print_fitting(f"harness: {redactor.text(str(error))}", to_stderr=True, hanging=_HANGING)
        return error.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except PermissionError as error:
        print_fitting(f"harness: {error.strerror}: {error.filename}", to_stderr=True, hanging=_HANGING)
        return ExitCode.ENVIRONMENT
    except OSError as error:
        if error.errno in _OF_THE_HOST:
            where = f": {redactor.text(str(error.filename))}" if error.filename else ""
            print_fitting(f"harness: {error.strerror}{where}", to_stderr=True, hanging=_HANGING)
            return ExitCode.ENVIRONMENT
        if not is_full(error):
            _print_traceback(error, redactor)
            return ExitCode.HARNESS_ERROR
        print_fitting(
            f"harness: {redactor.text(str(error))}; "
            "what was written so far is kept. Free some space, or put the run on another disk "
            "with --run-dir (a run needs about 60 bytes a record, and the brokers' logs)",
            to_stderr=True,
            hanging=_HANGING,
        )
        return ExitCode.ENVIRONMENT
    except Exception as error:  # a defect of the harness is shown in full, with its exit code
        _print_traceback(error, redactor)
        return ExitCode.HARNESS_ERROR


def _print_traceback(error: BaseException, redactor: Redactor) -> None:
    sys.stderr.write(redactor.text("".join(traceback.format_exception(error))))
