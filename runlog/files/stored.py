"""The layout of a run in a store (store.py): the names of its files, and the lists with their checksums.

    RUN/store.json                        the token by which a load host knows that it sees the store of its master
    RUN/manifest.json                     as in the run directory
    RUN/cells/CELL/cell.json              the same, from the moment on when it is known who has which share
    RUN/cells/CELL/hosts/HOST/index.json  the list of what a load host has put beside it
    RUN/cells/CELL/hosts/HOST/*.seg       its segments and rings, until the cell is kept as a whole
    RUN/cells/CELL/kept.json              the list of all files of a cell that has ended
    RUN/...                               those files, each under its path in the run directory

RUN is the mark of the run, which no other run has. A list is put after everything that it names. So what a list names
is whole, and its SHA-256 says whether it still is. Shown by tests/runlog/test_runlog_stored.py.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from runlog.files.store import Store, StoreError, check_name, pieces, read_all

LIST_BYTES_MAX: Final = 64 * 1024 * 1024
FILES_MAX: Final = 100_000
FILE_BYTES_MAX: Final = 2**33
PART: Final = ".part"
_SHA256_CHARACTERS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredList:
    """`files`: name below the list's own place -> what it must be."""

    is_whole: bool
    files: Mapping[str, StoredFile] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        files = {name: {"bytes": each.bytes, "sha256": each.sha256} for name, each in sorted(self.files.items())}
        return json.dumps({"is_whole": self.is_whole, "files": files}, indent=0).encode()


def token_name(run: str) -> str:
    return f"{run}/store.json"


def manifest_name(run: str) -> str:
    return f"{run}/manifest.json"


def cell_name(run: str, cell_id: str) -> str:
    return f"{run}/cells/{cell_id}/cell.json"


def kept_name(run: str, cell_id: str) -> str:
    return f"{run}/cells/{cell_id}/kept.json"


def hosts_prefix(run: str, cell_id: str) -> str:
    return f"{run}/cells/{cell_id}/hosts"


def host_prefix(run: str, cell_id: str, host: str) -> str:
    return f"{hosts_prefix(run, cell_id)}/{host}"


def index_name(run: str, cell_id: str, host: str) -> str:
    return f"{host_prefix(run, cell_id, host)}/index.json"


def read_document(store: Store, name: str) -> dict[str, Any]:
    """FileNotFoundError if it is not there, StoreError if it is no JSON object."""
    data = read_all(store, name, bytes_max=LIST_BYTES_MAX)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{store.url}/{name} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise StoreError(f"{store.url}/{name} holds no JSON object")
    return document


def read_list(store: Store, name: str) -> StoredList | None:
    """The list, or None if there is none. StoreError if it is not valid: paths from the store are not trusted."""
    try:
        document = read_document(store, name)
    except FileNotFoundError:
        return None
    files = document.get("files")
    if not isinstance(files, dict) or len(files) > FILES_MAX:
        raise StoreError(f"{store.url}/{name}: is no list of at most {FILES_MAX:,} files")
    return StoredList(
        is_whole=document.get("is_whole") is True,
        files={check_name(str(file)): _stored_file(store, name, item) for file, item in files.items()},
    )


def _stored_file(store: Store, name: str, item: object) -> StoredFile:
    size, sha256 = (item.get("bytes"), item.get("sha256")) if isinstance(item, dict) else (None, None)
    if not isinstance(size, int) or not 0 <= size <= FILE_BYTES_MAX or not isinstance(sha256, str):
        raise StoreError(f"{store.url}/{name}: an entry is no size and checksum")
    if len(sha256) != _SHA256_CHARACTERS:
        raise StoreError(f"{store.url}/{name}: an entry has no SHA-256")
    return StoredFile(bytes=size, sha256=sha256)


def measured(path: Path) -> StoredFile:
    """FileNotFoundError if it is gone."""
    with path.open("rb") as file:
        return StoredFile(sha256=hashlib.file_digest(file, "sha256").hexdigest(), bytes=file.tell())


def put_checked(store: Store, name: str, path: Path) -> StoredFile:
    """StoreError if the file changed on its way: then its checksum would be of nothing that exists."""
    before = measured(path)
    store.put_file(name, path)
    if measured(path) != before:
        raise StoreError(f"{path}: was written while it was put into the store")
    return before


def check_stored(store: Store, name: str, expected: StoredFile) -> None:
    """Read the file back from the store. StoreError if it is not what it must be: who removes another copy of it asks
    before."""
    digest, size = hashlib.sha256(), 0
    try:
        for piece in pieces(store, name):
            digest.update(piece)
            size += len(piece)
            if size > expected.bytes:
                break  # it is another file, and may be endless
    except FileNotFoundError:
        raise StoreError(f"{store.url}/{name}: is gone") from None
    if StoredFile(bytes=size, sha256=digest.hexdigest()) != expected:
        raise StoreError(f"{store.url}/{name}: is not what was put there: its checksum is wrong")


def fetch(store: Store, name: str, target: Path, expected: StoredFile) -> int:
    """Bring one file, in pieces, from where an earlier try broke off, and verify it. Returns the bytes that came.
    StoreError if it is not what it must be; it is not there under its name then."""
    if target.is_file() and not target.is_symlink() and measured(target) == expected:
        return 0
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + PART)
    came = 0
    for _ in range(2):  # what was begun may be of another file: then once more, from its beginning
        offset = part.stat().st_size if part.exists() else 0
        with part.open("ab") as out:
            for piece in pieces(store, name, offset):
                came += len(piece)
                if out.tell() + len(piece) > expected.bytes:
                    break  # it is another file, and may be endless
                out.write(piece)
            out.flush()
            os.fsync(out.fileno())
        if measured(part) == expected:
            os.replace(part, target)
            return came
        part.unlink()
        if offset == 0:
            break
    raise StoreError(f"{store.url}/{name}: is not what was put there: its checksum is wrong")
