"""The two key files of the link: `master.key` stays with the harness, `worker.key` goes to the load hosts.

A file holds its own secret key and the other side's public key (CurveZMQ, Curve25519). So each side accepts the other
and nobody else, and what is sent is encrypted. All load hosts share one key: who has `worker.key` is a load host, and
nobody with it can be a master. Shown by tests/workloads/test_workloads_hosts_link.py.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import zmq

Role = Literal["master", "worker"]
_KIND: Final = "kafka-harness load key 1"
_KEY_CHARACTERS: Final = 40  # 32 bytes in Z85
_FILE_BYTES_MAX: Final = 4_096


class KeyFileError(ValueError):
    """The file cannot be used as a key; the message is for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkKey:
    """Z85 text. `repr` shows no secret."""

    role: Role
    public: str
    secret: str
    peer_public: str

    def __repr__(self) -> str:
        return f"LinkKey(role={self.role!r}, public={self.public!r})"

    def document(self) -> dict[str, str]:
        return {
            "kind": _KIND, "role": self.role, "public": self.public, "secret": self.secret,
            "peer_public": self.peer_public,
        }  # fmt: skip


def new_keys() -> tuple[LinkKey, LinkKey]:
    """For the master and for its workers."""
    master_public, master_secret = (part.decode() for part in zmq.curve_keypair())
    worker_public, worker_secret = (part.decode() for part in zmq.curve_keypair())
    return (
        LinkKey(role="master", public=master_public, secret=master_secret, peer_public=worker_public),
        LinkKey(role="worker", public=worker_public, secret=worker_secret, peer_public=master_public),
    )


def write_keys(directory: Path) -> tuple[Path, Path]:
    """A new pair as `master.key` and `worker.key`, readable by their owner only. FileExistsError if one is there."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = (directory / "master.key", directory / "worker.key")
    for path in paths:
        if path.exists():
            raise FileExistsError(f"{path} exists: a new pair would lock out the hosts that have the old one")
    for path, key in zip(paths, new_keys(), strict=True):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(key.document(), indent=2) + "\n")
    return paths


def read_key(path: Path, role: Role) -> LinkKey:
    """KeyFileError says what is wrong with the file, without a word of what is in it."""
    if path.is_dir():
        raise KeyFileError(f"{path}: is a directory, expected a file, as {path / f'{role}.key'}")
    try:
        found = path.stat()
        if found.st_size > _FILE_BYTES_MAX:
            raise KeyFileError(f"{path}: is no key file, it has {found.st_size} bytes")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise KeyFileError(f"{path}: cannot be read: {why}") from error
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise KeyFileError(f"{path}: others can read it (mode {stat.S_IMODE(found.st_mode):o}): chmod 600 {path}")
    try:
        key = key_of(json.loads(text))
    except ValueError:
        raise KeyFileError(f"{path}: is no key file; `harness load-keys` writes a pair") from None
    if key.role != role:
        raise KeyFileError(f"{path}: is the key of the {key.role}, expected that of the {role}")
    return key


def key_of(document: object) -> LinkKey:
    """ValueError for anything else than `LinkKey.document`."""
    if not isinstance(document, dict) or document.get("kind") != _KIND or document.get("role") not in Role.__args__:  # type: ignore[attr-defined]
        raise ValueError("no key")
    parts = {name: document.get(name) for name in ("public", "secret", "peer_public")}
    if any(not isinstance(part, str) or len(part) != _KEY_CHARACTERS for part in parts.values()):
        raise ValueError("no key")
    return LinkKey(role=document["role"], **{name: str(part) for name, part in parts.items()})
