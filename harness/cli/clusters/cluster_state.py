"""The state file of a cluster that outlives its command, and the mark in its data directory.

$XDG_STATE_HOME/kafka-harness/clusters/<name>.json (0600) names place, processes and directory. The file alone is never
enough: a process is ended only if it carries the token of the file, and a directory is removed only if the mark inside
is that of the file. Shown by tests/harness/test_harness_cluster_state.py.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from chaos.lease import ProcessIdentity, is_alive, read_identity, state_root
from chaos.lease_file import LeaseProblem, own_directory, read_own_file
from chaos.process_identity import is_ours, read_token
from harness.clusters.kafka.jars import cache_directory
from runlog.files.documents import remove_halves, write_json
from runlog.files.place import Place, here

MARK_FILE: Final = ".kafka-harness-cluster"


class StateProblem(Exception):
    """The file cannot be believed; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    broker: str
    identity: ProcessIdentity
    token: str

    def is_running(self) -> bool:
        return is_ours(self.identity, self.token)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFile:
    bootstrap_servers: str
    directory: Path
    mark: str
    place: Place
    brokers: tuple[BrokerState, ...]

    def remove_data(self) -> bool:
        """False: the directory is not the one that was made for this cluster, and stays."""
        if not self.directory.exists():
            return True
        if _read_mark(self.directory).get("mark") != self.mark or not self.mark:
            return False
        shutil.rmtree(self.directory, ignore_errors=True)
        return True


def state_directory() -> Path:
    """The directory of the state files of clusters that are up."""
    return state_root(os.environ) / "clusters"


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Holds the lock of this state file, so that only one command starts or ends its cluster. BlockingIOError if it is
    held."""
    own_directory(path.parent)
    # The file stays. If it were removed, somebody could lock a new file of this name while this one is still locked.
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)


def data_directory(name: str, state_path: Path) -> tuple[Path, str]:
    """A new directory with a mark inside that says whose it is; and the mark."""
    mark = secrets.token_hex(16)
    directory = cache_directory() / "clusters" / f"{name}-{secrets.token_hex(4)}"
    directory.mkdir(mode=0o700, parents=True)
    owner = read_identity(os.getpid())
    assert owner is not None
    write_json(
        directory / MARK_FILE,
        {
            "mark": mark,
            "state": str(state_path.absolute()),
            "owner": {"pid": owner.pid, "start_ticks": owner.start_ticks},
            "place": here().as_json(),
        },
    )
    return directory, mark


def write_state(path: Path, *, mark: str, directory: Path, pids: Mapping[int, int], facts: Mapping[str, Any]) -> None:
    processes = {broker: (read_identity(pid), read_token(pid)) for broker, pid in pids.items()}
    own_directory(path.parent)
    write_json(
        path,
        {
            **facts,
            "directory": str(directory),
            "mark": mark,
            "place": here().as_json(),
            "brokers": {
                str(broker): {"pid": identity.pid, "start_ticks": identity.start_ticks, "token": token}
                for broker, (identity, token) in processes.items()
                if identity is not None
            },
        },
    )


def read_state(path: Path) -> ClusterFile:
    """FileNotFoundError, or StateProblem for a file that `harness cluster up` has not written."""
    try:
        document = json.loads(read_own_file(path))
        brokers = [
            BrokerState(
                broker=str(broker),
                identity=ProcessIdentity(pid=_positive(entry["pid"]), start_ticks=_positive(entry["start_ticks"])),
                token=str(entry["token"]),
            )
            for broker, entry in document["brokers"].items()
        ]
        return ClusterFile(
            bootstrap_servers=str(document["bootstrap_servers"]),
            directory=Path(str(document["directory"])),
            mark=str(document["mark"]),
            place=Place.from_json(document["place"]),
            brokers=tuple(brokers),
        )
    except FileNotFoundError:
        raise
    except KeyError as error:
        raise StateProblem(f"{path} lacks {error}") from error
    except (LeaseProblem, OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise StateProblem(f"{path} is no state file of ours: {error}") from error


def _positive(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 < value < 1 << 62:
        raise ValueError(f"expected a positive number, got {str(value)[:40]!r}")
    return value


def remove_abandoned_data() -> list[str]:
    """Removes data of an `up` that was killed before its state file existed. One line for each directory."""
    removed = []
    remove_halves(state_directory())
    for directory in sorted((cache_directory() / "clusters").glob("*-*")):
        mark = _read_mark(directory)
        if not mark or os.path.lexists(mark["state"]) or mark["place"].seen_from(here()) == "elsewhere":
            continue
        if mark["place"] == here() and is_alive(mark["owner"]):
            continue
        shutil.rmtree(directory, ignore_errors=True)
        removed.append(f"removed data of a cluster that is gone: {directory}")
    return removed


def _read_mark(directory: Path) -> dict[str, Any]:
    """Empty for a directory that `harness cluster up` has not made, or that does not belong to our user."""
    try:
        if directory.is_symlink() or directory.stat().st_uid != os.getuid():
            return {}
        document = json.loads(read_own_file(directory / MARK_FILE))
        owner = document["owner"]
        return {
            "mark": str(document["mark"]),
            "state": str(document["state"]),
            "owner": ProcessIdentity(pid=_positive(owner["pid"]), start_ticks=_positive(owner["start_ticks"])),
            "place": Place.from_json(document["place"]),
        }
    except (LeaseProblem, OSError, ValueError, TypeError, KeyError, RecursionError):
        return {}
