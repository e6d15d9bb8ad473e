"""The content of one simulated file: the synced part, and the later writes in their order. It knows no path."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    position: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    size: int


Change = Write | Truncate


def apply_change(content: bytearray, change: Change) -> None:
    if isinstance(change, Write):
        end = change.position + len(change.data)
        if len(content) < end:
            content.extend(bytes(end - len(content)))
        content[change.position : end] = change.data
    elif change.size <= len(content):
        del content[change.size :]
    else:
        content.extend(bytes(change.size - len(content)))


@dataclass(slots=True)
class FileContents:
    """A file. `durable` plus all of `unsynced` is `content`."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[Change] = field(default_factory=list)

    def change(self, change: Change) -> None:
        apply_change(self.content, change)
        self.unsynced.append(change)

    def sync(self) -> None:
        for change in self.unsynced:
            apply_change(self.durable, change)
        self.unsynced.clear()
