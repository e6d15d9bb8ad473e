"""`meta.properties` of a log directory: to which cluster and node it belongs, and its own id (KIP-858).

The file is Kafka's, version 1. A directory without the file is new and gets one. A file without a directory.id comes
from an earlier version of this broker, or from a Kafka before 3.7. As in Kafka, the id is added.
Shown by tests/broker_node/test_node_meta_properties.py.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from uuid import UUID

from broker.log.filesystem import LOCAL, FileSystem

META_PROPERTIES = "meta.properties"
RESERVED_IDS = 100  # Kafka keeps the lowest ids for itself


class StorageMismatchError(Exception):
    """The directory belongs to another broker or cluster, or its file is damaged."""


def text_of_id(directory_id: UUID) -> str:
    """In Kafka's form: 22 characters of base64."""
    return base64.urlsafe_b64encode(directory_id.bytes).decode().rstrip("=")


def check_meta_properties(
    directory: str, *, node_id: int, cluster_id: str, new_id: Callable[[], UUID], filesystem: FileSystem = LOCAL
) -> UUID:
    """The id of the directory. Writes the file, or the id into it, if there is none yet. Raises StorageMismatchError
    for a directory of another node or cluster."""
    path = f"{directory}/{META_PROPERTIES}"
    found: dict[str, str] = {}
    if filesystem.exists(path):
        text = filesystem.read_bytes(path).decode(errors="replace")
        lines = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
        found = {key.strip(): value.strip() for key, _, value in lines}
        for key, expected in (("node.id", str(node_id)), ("cluster.id", cluster_id)):
            if found.get(key) != expected:
                raise StorageMismatchError(f"{path}: {key} is {found.get(key)}, expected {expected}")
    if "directory.id" in found:
        return _id_of(path, found["directory.id"])
    directory_id = _fresh(new_id)
    known = {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id)}
    _write(filesystem, path, {**known, **found, "directory.id": text_of_id(directory_id)})
    return directory_id


def _fresh(new_id: Callable[[], UUID]) -> UUID:
    """As Kafka's Uuid.randomUuid: no reserved id, and none whose text begins like an option of a command."""
    while True:
        directory_id = new_id()
        if directory_id.int >= RESERVED_IDS and not text_of_id(directory_id).startswith("-"):
            return directory_id


def _id_of(path: str, text: str) -> UUID:
    try:
        directory_id = UUID(bytes=base64.urlsafe_b64decode(f"{text}=="))
    except (binascii.Error, ValueError):
        raise StorageMismatchError(f"{path}: directory.id is {text!r}, expected 22 characters of base64") from None
    if directory_id.int < RESERVED_IDS:
        raise StorageMismatchError(f"{path}: directory.id {text} is reserved")
    return directory_id


def _write(filesystem: FileSystem, path: str, properties: Mapping[str, str]) -> None:
    text = "#\n" + "".join(f"{key}={value}\n" for key, value in properties.items())
    filesystem.write_atomically(path, text.encode())
    # The controller will know the directory by this id. A loss of power must not give it another one.
    filesystem.sync_directory(path.rpartition("/")[0])
