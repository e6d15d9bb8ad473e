"""Every command that we tell a reader to run is one that `harness` takes: in documents, in messages, in what a run
writes."""

from __future__ import annotations

import ast
import functools
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from harness.cli.main import app
from harness.run.directory.reproduce import cell_command, of_one_suite, reproduce_command
from harness.suite import builtin_suites
from reports.figures.overview.choice import choice_of
from reports.figures.sweep.figures import RecommendationText
from reports.figures.sweep.recommendation_words import DECIDE
from runlog.records.cell import CellKind

ROOT = Path(__file__).resolve().parents[2]
CODE = ("harness", "reports", "chaos", "workloads", "broker", "runlog")
DOCUMENTS = ("*.md", "docs/**/*.md", "benchmarks/**/*.md", "examples/**/*", "containers/*", "harness/templates/*")
# In a block, in backquotes, behind a prompt, as a step of CI; `make` itself says .venv/bin/harness.
_IN_TEXT = re.compile(
    r"(?:^[ \t]*|`|\$ |&& |run: |- |<code>)(?:\S*/bin/)?harness ((?:[^`\n<\\]|\\\n|<(?!/code))*)", re.MULTILINE
)
_FILLED_IN = "filled-in.yaml"
_PLACEHOLDERS = {"N": "3", "PERCENT": "5"}


@functools.cache
def root_command() -> Any:
    return typer.main.get_command(app)


def parse(words: Sequence[str]) -> None:
    """As `harness` does, without doing it. Raises what the parser raises."""
    command, name, parent = root_command(), "harness", None
    rest = list(words)
    while True:
        context: Any = command.make_context(name, rest, parent=parent)
        if not hasattr(command, "commands"):
            return
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        if not rest:
            return
        found, command, rest = command.resolve_command(context, rest)
        name, parent = str(found), context


def problem_of(text: str) -> str:
    """Why `harness TEXT` would be refused; empty if it would not."""
    text = re.split(r"\s+#\s|\s(?:&&|\|\||[;|>])\s|\s{3,}", text.replace("\\\n", " "))[0].strip()
    try:
        words = [_PLACEHOLDERS.get(word, word).partition("|")[0] for word in shlex.split(text.rstrip(".,:;"))]
    except ValueError as error:
        return str(error)
    if len(words) < 2 or words[-1] in ("--help", "--version") or {"…", "..."} & set(words):
        return (
            "" if not words or words[0].startswith("-") or words[0] in {*commands(), _FILLED_IN} else "no such command"
        )
    if len(words) == 2 and words[1] in getattr(root_command().commands.get(words[0]), "commands", ()):
        return ""  # only the command is named, as above: it is one of a group
    if words[0] == _FILLED_IN:
        return ""  # the whole command is made elsewhere: below
    if words[-1].startswith("--") and "=" not in words[-1]:
        words.append("4")  # only the option is named: one that takes a value has one now
    try:
        parse(words)
    except typer.Exit:
        return ""
    except Exception as error:  # of click, whose classes have no public name here
        return f"{type(error).__name__}: {error}"
    if words[0] == "run" and (strange := [w for w in words[1:2] if re.fullmatch(r"[a-z-]{3,}", w)]):
        return "" if strange[0] in builtin_suites() else f"no suite {strange[0]}"
    return ""


def commands() -> set[str]:
    return set(root_command().commands)


def documents() -> Iterator[Path]:
    for pattern in DOCUMENTS:
        yield from (path for path in ROOT.glob(pattern) if path.is_file())


def literals(path: Path) -> Iterator[str]:
    """Texts of a module, with a word in place of what is filled in. Docstrings of commands are shown too."""
    text = path.read_text(encoding="utf-8")
    if "harness " not in text:  # most modules: to parse them takes long
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else _FILLED_IN for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"\{\d?\}", _FILLED_IN, node.value)


def test_commands_in_documents_are_taken() -> None:
    seen, wrong = 0, []
    for path in documents():
        for found in _IN_TEXT.finditer(path.read_text(encoding="utf-8", errors="replace")):
            seen += 1
            if found[1].split()[:1] and found[1].split()[0] in commands() and (problem := problem_of(found[1])):
                wrong.append(f"{path.relative_to(ROOT)}: harness {found[1].strip()}: {problem}")
    assert seen > 100
    assert wrong == []


@pytest.mark.slow
def test_commands_in_messages_are_taken() -> None:
    seen, wrong = 0, []
    for package in CODE:
        paths = [*(ROOT / package).rglob("*.py"), *(ROOT / package).rglob("*.j2")]
        for path in paths:
            texts = literals(path) if path.suffix == ".py" else [path.read_text(encoding="utf-8")]
            for text in texts:
                for found in _IN_TEXT.finditer(text):
                    seen += 1
                    if problem := problem_of(found[1]):
                        wrong.append(f"{path.relative_to(ROOT)}: harness {found[1].strip()}: {problem}")
    assert seen > 30
    assert wrong == []


@pytest.mark.parametrize(
    "text",
    ["confirm runs/x --cell y", "confirm runs/x --seed 3", "bench --set a=b", "runs demo", "run demoo", "compare A"],
)
def test_a_command_that_is_refused_is_found(text: str) -> None:
    assert problem_of(text)


RUNS = (
    "run demo --client confluent --set sweep.repetitions=4 --run-dir x --cell sweep-baseline --no-certify --strict",
    "run orders.yaml --cluster external --bootstrap-server a:1 --client-config f --web --web-port 8090 --allow f",
    "bench --rate 5000 --size 1024 linger.ms=5 acks=all --limit 'p99_ms <= 50' --artifacts=x --no-report",
    "chaos --smoke --client java --artifacts x",
    "chaos leader-loss --case acks-1 --toxiproxy embedded",
    "confirm runs/x --repetitions 5 --run-dir y --bootstrap-server a:1 --client-config f",
)


@pytest.mark.parametrize("argv", RUNS)
@pytest.mark.parametrize("kind", list(CellKind))
def test_the_command_for_a_cell_is_taken(argv: str, kind: CellKind) -> None:
    words = shlex.split(argv)
    command = cell_command(words, 7, cell_id="chaos-a-b", kind=kind)
    parse(shlex.split(command)[1:])
    parse(shlex.split(reproduce_command(words, 7))[1:])
    assert not any(one in command for one in ("--run-dir", "--artifacts", "--allow", "--no-report"))
    is_alone = kind is not CellKind.SEARCH and not argv.startswith("confirm")
    assert ("--cell chaos-a-b" in command) is is_alone, "a try of a search cannot be asked for, nor one of confirm"
    assert ("--seed 7" in command) is not argv.startswith("confirm")


def test_a_run_that_no_command_began_names_none() -> None:
    assert cell_command((), 7, cell_id="x", kind=CellKind.CHAOS) == reproduce_command((), 7) == ""


def test_a_suite_among_several_is_run_again_without_the_others() -> None:
    argv = ["run", "smoke", "--client", "confluent", "--strict", "demo", "--set", "seed=3", "orders.yaml"]
    assert of_one_suite(argv, 1) == ["run", "--client", "confluent", "--strict", "demo", "--set", "seed=3"]
    assert of_one_suite(argv, 2) == ["run", "--client", "confluent", "--strict", "--set", "seed=3", "orders.yaml"]


def test_the_command_that_would_decide_runs_every_cell() -> None:
    own = RecommendationText(sentences=(f"run the same suite with {DECIDE}.",), properties="")
    argv = ("run", "demo", "--run-dir", "x", "--cell", "sweep-baseline", "--cell=sweep-acks-1", "--seed", "3")
    command = choice_of(own, argv).command
    assert command == f"harness run demo --seed 3 {DECIDE}"
    parse(shlex.split(command)[1:])
