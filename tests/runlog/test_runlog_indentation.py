"""The line that is off is named, together with the line that it does not agree with."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from runlog.files.indentation import indentation_problem
from runlog.files.user_files import UserFileError, load_yaml

ROOT = Path(__file__).resolve().parents[2]
CASES = [
    ("too deep", "a:\n  b: 1\n   c: 2\n  d: 3\n", 3, "is indented by 3 spaces, but line 2 before it by 2 and has no "),
    ("not deep enough", "a:\n  b: 1\n c: 2\n  d: 3\n", 3, "is indented by 1 space, but line 1 by 0 and line 2 by 2"),
    ("the first one too deep", "a:\n    b: 1\n  c: 2\n", 3, "is indented by 2 spaces, but line 1 by 0 and line 2 by 4"),
    ("in an item", "a:\n  - b: 1\n     c: 2\n", 3, "is indented by 5 spaces, but line 2 before it by 4"),
    ("an item", "a:\n  - b: 1\n - c: 2\n", 3, "is indented by 1 space, but line 1 by 0 and line 2 by 2"),
    ("after a comment and a text", "a: |\n  {x\n   y\n# c\nb:\n  c: 1\n   d: 2\n", 7, "is indented by 3 spaces"),
    ("a tab", "a:\n\tb: 1\n", 2, "is indented by a tab, expected spaces"),
]


@pytest.mark.parametrize(("text", "line", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_line_that_is_off_is_named(text: str, line: int, words: str) -> None:
    found = indentation_problem(text)
    assert found is not None
    assert found[0] == line
    assert found[1].startswith(words)
    with pytest.raises(UserFileError) as refused:
        load_yaml(text, YAML(typ="rt", pure=True))
    assert refused.value.line == line
    assert refused.value.problem.startswith(f"not YAML: {words}")


def test_another_mistake_keeps_the_words_of_the_parser() -> None:
    with pytest.raises(UserFileError, match="not YAML: ") as refused:
        load_yaml("a: [1, 2\nb: 3\n", YAML(typ="rt", pure=True))
    assert "indented" not in refused.value.problem


def test_no_line_of_a_sound_document_is_off() -> None:
    folders = [
        *(resources.files("workloads") / "suites").iterdir(),
        *(resources.files("chaos") / "scenarios").iterdir(),
    ]
    texts = [entry.read_text(encoding="utf-8") for entry in folders if entry.name.endswith(".yaml")]
    texts += [path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples" / "ci").iterdir())]
    assert len(texts) > 20
    assert [found for text in texts if (found := indentation_problem(text))] == []
