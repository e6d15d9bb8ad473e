"""What the tests of the log share: each leaves its logs open, as a crash would, and their files are closed after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.log.filesystem import LocalFile


@pytest.fixture(autouse=True)
def _files_are_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    opened: list[LocalFile] = []
    open_one = LocalFile.__init__

    def remember(file: LocalFile, path: str) -> None:
        open_one(file, path)
        opened.append(file)

    monkeypatch.setattr(LocalFile, "__init__", remember)
    yield
    for file in opened:
        file.close()
