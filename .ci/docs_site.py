"""The documentation as a site with search: `python .ci/docs_site.py [OUT]`, by default dist/site. A dead link fails it.

Pages link to source files beside them, and a site has none of these. So this copies the pages of `docs/` and whatever
they link to into one directory: a Markdown file becomes a page below `project/`, any other file a page below `source/`
that shows it. Zensical builds that directory and checks every link and anchor. Knows nothing of what the pages say.
Shown by tests/repository/test_repository_site.py.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
CONFIG: Final = Path(__file__).with_name("mkdocs.yml")
TIMEOUT_S: Final = 300
MARK: Final = ".written-by-docs-site"  # only a directory with this file is replaced
_LINK = re.compile(r"(\]\()(?![a-z]+:)([^)\s#]+)(#[^)\s]*)?(\))")
_FENCE = re.compile(r"^(```.*?^```|~~~.*?^~~~)", re.MULTILINE | re.DOTALL)
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".java": "java", ".json": "json", ".toml": "toml"}


def place_of(path: Path, docs: Path, root: Path) -> Path:
    """Where the site shows a file of the repository."""
    inside = path.relative_to(root)
    if path.is_dir():
        return Path("source") / inside / "index.md"
    if path.is_relative_to(docs):
        return path.relative_to(docs)
    return Path("project") / inside if path.suffix == ".md" else Path("source") / f"{inside}.md"


def stage(pages: Path, root: Path = ROOT) -> int:
    """Fill `pages` with the pages of `docs/` and all that they lead to; how many there are."""
    docs = root / "docs"
    waiting = [path for path in sorted(docs.rglob("*")) if path.is_file()]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        target = pages / place_of(path, docs, root)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text, found = _page(path, docs, root)
            target.write_text(text, encoding="utf-8")
            waiting += [each for each in found if each not in seen]
            seen.update(found)
        elif path.is_dir():
            names = sorted(each.name for each in path.iterdir() if not each.name.startswith((".", "__")))
            listing = "".join(f"- `{name}`\n" for name in names)
            target.write_text(f"{_UNSEARCHED}# {path.relative_to(root)}/\n\n{listing}", encoding="utf-8")
        elif path.is_relative_to(docs):
            shutil.copyfile(path, target)
        else:
            target.write_text(_source(path, root), encoding="utf-8")
    return len(seen)


_UNSEARCHED = "---\nsearch: {exclude: true}\n---\n"


def _page(path: Path, docs: Path, root: Path) -> tuple[str, list[Path]]:
    """The page with links as the site has them, and where they lead. A dead link stays, and fails the build."""
    found: list[Path] = []
    here = place_of(path, docs, root).parent

    def moved(match: re.Match[str]) -> str:
        linked = Path(os.path.normpath(path.parent / match[2]))
        if not linked.exists() or not linked.is_relative_to(root):
            return match[0]
        found.append(linked)
        anchor = match[3] if match[3] and linked.suffix == ".md" else ""
        return f"{match[1]}{os.path.relpath(place_of(linked, docs, root), here)}{anchor}{match[4]}"

    pieces = _FENCE.split(path.read_text(encoding="utf-8"))
    text = "".join(piece if number % 2 else _LINK.sub(moved, piece) for number, piece in enumerate(pieces))
    return text, found


def _source(path: Path, root: Path) -> str:
    """A page that shows the file."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        text = "(not text)"
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    language = _LANGUAGES.get(path.suffix, "text")
    return f"{_UNSEARCHED}# {path.relative_to(root)}\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n"


def build(out: Path, root: Path = ROOT) -> int:
    """The exit code of the generator; what it says goes to stderr. `out` is replaced if the build succeeds."""
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        count = stage(work / "pages", root)
        shutil.copyfile(CONFIG, work / "mkdocs.yml")
        command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", "mkdocs.yml"]
        done = subprocess.run(command, cwd=work, stdout=sys.stderr, timeout=TIMEOUT_S, check=False)
        if done.returncode == 0:
            out.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=out.parent) as beside:
                new = Path(beside) / "site"  # whole before the old one goes: a full disk leaves that as it is
                shutil.copytree(work / "site", new)
                (new / MARK).touch()
                if out.exists():
                    shutil.rmtree(out)
                new.rename(out)
            print(f"{count} pages: {out / 'index.html'}")
    return done.returncode


def main(arguments: Sequence[str]) -> int:
    out = Path(arguments[0]) if arguments else ROOT / "dist" / "site"
    if out.exists() and not (out / MARK).exists():
        print(f"{out}: not a site that this program wrote, so it stays; expected a new directory", file=sys.stderr)
        return 2
    return build(out)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
