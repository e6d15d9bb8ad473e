"""`harness init`: the worked examples of docs/start as files to begin with. Never writes over a file.

Shown by tests/harness/test_harness_init.py; that docs and templates are one text, by test_harness_start_pages.py.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Final

from harness.errors import EnvironmentFault, UsageError
from harness.suite_source import nearest
from harness.terminal.tables import print_fitting
from workloads.clients.process.shipped import LANGUAGES, sources

_PYTHON: Final = "py"
# What, its template and default name, and what to do with it next. A template that is Python ends in .txt: it is no
# module of ours.
_EXAMPLES: Final = {
    "suite": ("orders.yaml", "harness validate {0} && harness run {0}"),
    "scenario": ("my-producer.yaml", "harness validate {0} && harness chaos {0}"),
    "test": (f"test_orders.{_PYTHON}", "pytest {0}   (needs confluent-kafka)"),
}


def write_example(what: str, path: Path | None, *, language: str | None = None) -> None:
    """UsageError if there is no such example, or a file where it would go."""
    if what not in _EXAMPLES:
        raise UsageError(f"init {what}: there is no such example{nearest(what, [*_EXAMPLES, 'client'])}")
    if language is not None:
        raise UsageError(f"init {what} --language {language}: --language is for `harness init client`")
    name, then = _EXAMPLES[what]
    target = path or Path(name)
    folder = resources.files("harness") / "templates"
    template = folder / (f"{name}.txt" if name.endswith(".py") else name)
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(template.read_text(encoding="utf-8"))
    except FileExistsError:
        raise UsageError(f"{target} is there already: give another name, `harness init {what} FILE`") from None
    except FileNotFoundError:
        raise UsageError(f"{target}: there is no directory {target.parent.absolute()}") from None
    except OSError as error:
        if error.filename is None:  # it was made, and what stands in it is not whole
            target.unlink(missing_ok=True)
        raise EnvironmentFault(f"{target.absolute()} cannot be written: {error.strerror}") from error
    print(target)
    print_fitting(f"next: {then.format(target)}", to_stderr=True, hanging=len("next: "))


def write_client(language: str | None, path: Path | None) -> None:
    """A directory with a client that speaks the client protocol. UsageError if it is there, or no such language."""
    if language is None or language not in LANGUAGES:
        said = "no --language" if language is None else f"--language {language}"
        hint = "" if language is None else nearest(language, tuple(LANGUAGES))
        raise UsageError(f"init client: {said}{hint or ', expected one of ' + ', '.join(LANGUAGES)}")
    target = path or Path(f"my-{language}-client")
    try:
        target.mkdir()
        for name, text in sources(language).items():
            (target / name).write_text(text, encoding="utf-8")
    except FileExistsError:
        raise UsageError(f"{target} is there already: give another name, `harness init client PATH`") from None
    except FileNotFoundError:
        raise UsageError(f"{target}: there is no directory {target.parent.absolute()}") from None
    except OSError as error:
        raise EnvironmentFault(f"{target.absolute()} cannot be written: {error.strerror}") from error
    print(target)
    build, start = LANGUAGES[language].build.format(target), LANGUAGES[language].start.format(target)
    then = f"{build} && " if build else ""
    print_fitting(f"next: {then}harness client check {start}", to_stderr=True, hanging=len("next: "))
