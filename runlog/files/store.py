"""A place for files that several hosts reach: a shared directory (`file:///mnt/runs`) or a bucket (`s3://bucket/runs`).

Files are put whole and read in pieces, under names that are checked. A bucket needs the extra `store` (s3fs). That
library finds credentials and endpoint where the AWS tools find them: in the environment or in ~/.aws. The harness never
has them, so they cannot be in its files, command lines or logs.

This module knows nothing of runs. Shown by tests/runlog/test_runlog_store.py and tests/runlog/test_runlog_store_s3.py.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

from runlog.files.documents import sync_directory

NAMES_MAX: Final = 200_000  # below one prefix; a cell has up to 20,000 files of each of its load hosts
DEPTH_MAX: Final = 16
PIECE_BYTES: Final = 8 * 1024 * 1024
TRIES: Final = 5  # A request to a bucket is tried so often, with growing pauses.
CONNECT_S: Final = 10
READ_S: Final = 60
_NAME_PART: Final = re.compile(r"(?!\.\.?$)[A-Za-z0-9_.,=+-]{1,255}")
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


class StoreError(OSError):
    """The store cannot be used, or a request failed. The message is for the user and contains no secret."""


class Store(Protocol):
    """Names are relative and have `/` between their parts."""

    @property
    def url(self) -> str: ...

    def put_bytes(self, name: str, data: bytes) -> None:
        """A reader sees the old content or the new content, never a part."""

    def put_file(self, name: str, path: Path) -> None: ...

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Returns fewer bytes at the end of the file. FileNotFoundError if it is not there."""

    def names(self, prefix: str) -> list[str]:
        """Names of all files below the prefix, sorted. StoreError for more than NAMES_MAX."""

    def places(self, prefix: str) -> list[str]:
        """Directories directly under the prefix that have files: names without the prefix, sorted. Bounds as in
        `names`."""

    def remove(self, name: str) -> None:
        """No error if it is not there."""


def open_store(url: str) -> Store:
    """StoreError says what is wrong with the URL, or what is missing. No request is sent to a bucket yet."""
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise StoreError(
            "a store's URL holds no credentials and no options: they belong into the environment or ~/.aws"
        )
    if parts.scheme == "file":
        return DirectoryStore(url, _root_of(url, parts.netloc, unquote(parts.path)))
    if parts.scheme == "s3":
        prefix = parts.path.strip("/")
        if not _BUCKET.fullmatch(parts.netloc):
            raise StoreError(f"{url}: expected s3://bucket/prefix")
        if prefix:
            check_name(prefix)
        return BucketStore(parts.netloc, prefix)
    raise StoreError(f"{url[:200]}: expected file:///directory or s3://bucket/prefix")


def check_name(name: str) -> str:
    parts = name.split("/")
    if len(parts) > DEPTH_MAX or not all(_NAME_PART.fullmatch(part) for part in parts):
        raise StoreError(f"{name[:200]!r} is no name of a file in a store")
    return name


def read_all(store: Store, name: str, *, bytes_max: int) -> bytes:
    """FileNotFoundError if it is not there, StoreError if it is larger."""
    found = bytearray()
    for piece in pieces(store, name):
        found += piece
        if len(found) > bytes_max:
            raise StoreError(f"{store.url}/{name}: more than {bytes_max:,} bytes")
    return bytes(found)


def pieces(store: Store, name: str, offset: int = 0) -> Iterator[bytes]:
    """The file from `offset` on."""
    while True:
        piece = store.read(name, offset, PIECE_BYTES)
        if piece:
            yield piece
        if len(piece) < PIECE_BYTES:
            return
        offset += len(piece)


def _bounded(names: list[str], where: str) -> list[str]:
    if len(names) > NAMES_MAX:
        raise StoreError(f"{where}: more than {NAMES_MAX:,} files")
    return sorted(names)


def _root_of(url: str, netloc: str, path: str) -> Path:
    root = Path(path)
    if netloc not in ("", "localhost") or not root.is_absolute():
        raise StoreError(f"{url}: expected file:///directory")
    if not root.is_dir():  # never made here: a share that is not mounted would become a directory of this host
        raise StoreError(f"{url}: there is no such directory on this host")
    return root


class DirectoryStore:
    """A store on a shared file system. Modes follow the umask, because other hosts may have other users. The content of
    a file is on disk before its name appears."""

    def __init__(self, url: str, root: Path) -> None:
        self._url, self._root = url.rstrip("/"), root

    @property
    def url(self) -> str:
        return self._url

    @property
    def root(self) -> Path:
        return self._root

    def put_bytes(self, name: str, data: bytes) -> None:
        temporary, path = self._beside(name)
        try:
            with temporary.open("xb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            self._set_in_place(temporary, path)
        except OSError as error:
            raise self._error(name, error) from error
        finally:
            temporary.unlink(missing_ok=True)

    def put_file(self, name: str, path: Path) -> None:
        temporary, target = self._beside(name)
        try:
            with path.open("rb") as source, temporary.open("xb") as out:
                shutil.copyfileobj(source, out, PIECE_BYTES)
                out.flush()
                os.fsync(out.fileno())
            self._set_in_place(temporary, target)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._error(name, error) from error
        finally:
            temporary.unlink(missing_ok=True)

    def read(self, name: str, offset: int, length: int) -> bytes:
        path = self._root / check_name(name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                return os.pread(descriptor, length, offset)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._error(name, error) from error

    def names(self, prefix: str) -> list[str]:
        """Leaves out links, and files that another host is writing now (their names begin with a dot)."""
        found: list[str] = []
        top = self._root / check_name(prefix) if prefix else self._root
        for directory, inner, files in os.walk(top, followlinks=False):
            inner[:] = [each for each in inner if not each.startswith(".")]
            place = Path(directory)
            if len(place.relative_to(self._root).parts) >= DEPTH_MAX:
                inner.clear()
            found += [
                (place / file).relative_to(self._root).as_posix()
                for file in files
                if not file.startswith(".") and not (place / file).is_symlink()
            ]
            _bounded(found, f"{self._url}/{prefix}")
        return sorted(found)

    def places(self, prefix: str) -> list[str]:
        top = self._root / check_name(prefix) if prefix else self._root
        try:
            with os.scandir(top) as entries:
                inner = (each for each in entries if not each.name.startswith("."))
                found = [each.name for each in inner if each.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._error(prefix, error) from error
        return _bounded(found, f"{self._url}/{prefix}")

    def remove(self, name: str) -> None:
        path = self._root / check_name(name)
        try:
            path.unlink(missing_ok=True)
            for parent in path.parents:  # directories that are empty now
                if parent == self._root:
                    return
                parent.rmdir()
        except OSError:
            return

    def _beside(self, name: str) -> tuple[Path, Path]:
        path = self._root / check_name(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._error(name, error) from error
        return path.with_name(f".{path.name}.{secrets.token_hex(6)}.part"), path

    def _set_in_place(self, temporary: Path, path: Path) -> None:
        os.replace(temporary, path)
        sync_directory(path.parent)

    def _error(self, name: str, error: OSError) -> StoreError:
        return StoreError(f"{self._url}/{name}: {error.strerror or error}")


class BucketStore:
    """A store in a bucket of any server that speaks Amazon's S3 protocol. A reader sees a whole file or none."""

    def __init__(self, bucket: str, prefix: str) -> None:
        self._root = f"{bucket}/{prefix}".rstrip("/")
        try:
            import s3fs
        except ImportError as error:
            raise StoreError(
                "a bucket needs the package s3fs: pip install 's3fs>=2026.1,<2027' here and on each load host"
            ) from error
        # A cached list could hide files that other hosts put later.
        self._files: Any = s3fs.S3FileSystem(
            anon=False, use_listings_cache=False, skip_instance_cache=True,
            config_kwargs={
                "connect_timeout": CONNECT_S, "read_timeout": READ_S,
                "retries": {"mode": "standard", "max_attempts": TRIES},
            },
        )  # fmt: skip

    @property
    def url(self) -> str:
        return f"s3://{self._root}"

    def server(self) -> tuple[str, str]:
        """URL and region of the server, wherever the library has found them."""

        def look() -> tuple[str, str]:
            self._files.connect()
            told = self._files.s3.meta
            return str(told.endpoint_url), str(told.region_name or "")

        found: tuple[str, str] = self._ask("store.json", look)
        return found

    @property
    def root(self) -> str:
        """bucket/prefix"""
        return self._root

    def put_bytes(self, name: str, data: bytes) -> None:
        self._ask(name, lambda: self._files.pipe_file(self._path(name), data))

    def put_file(self, name: str, path: Path) -> None:
        path.stat()  # one that is gone is no error of the store
        self._ask(name, lambda: self._files.put_file(str(path), self._path(name)))

    def read(self, name: str, offset: int, length: int) -> bytes:
        path = self._path(name)

        def read() -> bytes:
            size = int(self._files.info(path)["size"])  # servers answer a range beyond the end in different ways
            if offset >= size:
                return b""
            found: bytes = self._files.cat_file(path, start=offset, end=min(size, offset + length))
            return found

        found: bytes = self._ask(name, read, may_be_absent=True)
        return found

    def names(self, prefix: str) -> list[str]:
        top = self._path(prefix) if prefix else self._root

        def find() -> list[str]:
            try:
                return list(self._files.find(top))
            except FileNotFoundError:
                return []

        found = _bounded(self._ask(prefix, find), f"{self.url}/{prefix}")
        inside = f"{self._root}/"
        return sorted(path.removeprefix(inside) for path in found if path.startswith(inside) and path != top)

    def places(self, prefix: str) -> list[str]:
        top = self._path(prefix) if prefix else self._root

        def find() -> list[str]:
            try:
                found = self._files.ls(top, detail=True)
            except FileNotFoundError:
                return []
            return [str(each["name"]).rsplit("/", 1)[-1] for each in found if each["type"] == "directory"]

        return _bounded(self._ask(prefix, find), f"{self.url}/{prefix}")

    def remove(self, name: str) -> None:
        def remove() -> None:
            try:
                self._files.rm_file(self._path(name))
            except FileNotFoundError:
                return

        self._ask(name, remove)

    def _path(self, name: str) -> str:
        return f"{self._root}/{check_name(name)}"

    def _ask(self, name: str, do: Callable[[], Any], *, may_be_absent: bool = False) -> Any:
        """Turns every error of the library into a StoreError. Its texts name the request, never the secret key. If the
        bucket is missing, the library raises FileNotFoundError. For a put this is an error like any other."""
        try:
            return do()
        except Exception as error:  # botocore's errors have no common ancestor with those of aiohttp
            if may_be_absent and isinstance(error, FileNotFoundError):
                raise
            first = next(iter(str(error).splitlines()), "")[:300]
            raise StoreError(f"{self.url}/{name}: {type(error).__name__}: {first}") from error
