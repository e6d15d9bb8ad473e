"""meta.properties: to whom a log directory belongs, its id, and which directories let a broker start."""

from __future__ import annotations

import errno
import random
from pathlib import Path
from uuid import UUID

import pytest
from partitions_helper import node_config

from broker.log.checkpoints import CLEAN_SHUTDOWN_FILE
from broker.node.cluster.meta_properties import StorageMismatchError, check_meta_properties, text_of_id
from broker.node.process.logs import Logger
from broker.node.replicas.directories import LogDirectories
from broker.node.replicas.opened_directories import id_maker, open_directories
from broker.node.settings.config import NodeConfig, changed
from broker.sim.disk import Failure, SimDisk
from broker.sim.filesystem import SimFileSystem
from broker.sim.scheduler import Scheduler

FIRST, SECOND = UUID(int=2**127 + 1), UUID(int=2**127 + 2)
OLD = "#\nversion=1\ncluster.id=c\nnode.id=1\n"  # as earlier versions of this broker wrote it


def check(path: Path, *, node_id: int = 1, cluster_id: str = "c", new: UUID = FIRST) -> UUID:
    return check_meta_properties(str(path), node_id=node_id, cluster_id=cluster_id, new_id=lambda: new)


def test_a_new_directory_gets_an_id_and_keeps_it(tmp_path: Path) -> None:
    assert check(tmp_path) == FIRST
    assert check(tmp_path, new=SECOND) == FIRST
    lines = (tmp_path / "meta.properties").read_text().splitlines()
    assert lines == ["#", "version=1", "cluster.id=c", "node.id=1", f"directory.id={text_of_id(FIRST)}"]
    assert len(text_of_id(FIRST)) == 22


def test_a_directory_of_an_earlier_version_gets_an_id_and_keeps_the_rest(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(OLD + "anything=else\n")
    assert check(tmp_path) == FIRST
    text = (tmp_path / "meta.properties").read_text()
    assert text == f"{OLD}anything=else\ndirectory.id={text_of_id(FIRST)}\n"
    assert check(tmp_path, new=SECOND) == FIRST


def test_the_file_of_apache_kafka_is_understood(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        "#\n#Fri Nov 27 07:00:00 UTC 2026\ncluster.id=c\ndirectory.id=EnRsdmFC-JHsCnEV58hNxA\nnode.id=1\nversion=1\n"
    )
    assert text_of_id(check(tmp_path)) == "EnRsdmFC-JHsCnEV58hNxA"


def test_a_directory_of_another_broker_is_refused(tmp_path: Path) -> None:
    check(tmp_path)
    with pytest.raises(StorageMismatchError, match=r"node\.id is 1, expected 2"):
        check(tmp_path, node_id=2)
    with pytest.raises(StorageMismatchError, match=r"cluster\.id is c, expected d"):
        check(tmp_path, cluster_id="d")


@pytest.mark.parametrize("text", ["x", "AAAAAAAAAAAAAAAAAAAAAQ", "ä", ""])
def test_an_id_that_cannot_be_one_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(f"{OLD}directory.id={text}\n")
    with pytest.raises(StorageMismatchError, match=r"directory\.id"):
        check(tmp_path)


def test_an_id_is_neither_reserved_nor_like_an_option(tmp_path: Path) -> None:
    """As in Kafka: a tool would take an id that begins with a minus for an option."""
    like_an_option = UUID(bytes=b"\xf8" + bytes(15))
    assert text_of_id(like_an_option).startswith("-")
    drawn = iter((UUID(int=1), like_an_option, FIRST))
    found = check_meta_properties(str(tmp_path), node_id=1, cluster_id="c", new_id=lambda: next(drawn))
    assert found == FIRST


# -- several directories -------------------------------------------------------------------------------------------


def configured(*paths: str, metadata: str = "") -> NodeConfig:
    config = node_config(Path("unused"))
    return changed(config, log_dirs=tuple(map(Path, paths)), metadata_log_dir=metadata)


def opened(config: NodeConfig, disk: SimDisk) -> LogDirectories:
    return open_directories(
        config,
        new_id=id_maker(random.Random(4)),
        logger=Logger(1),
        filesystem=SimFileSystem(disk),
        boot_id="boot",
    )


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk(scheduler=Scheduler(), rng=random.Random(1), name="disk")


def paths(directories: LogDirectories) -> list[str]:
    return [each.path for each in directories.working]


def test_a_directory_that_cannot_be_used_does_not_keep_the_broker_from_starting(disk: SimDisk) -> None:
    config = configured("/a", "/b", "/c")
    ids = opened(config, disk).working_ids()
    assert len(set(ids)) == 3
    disk.failures.append(Failure(call="read", where="/b/meta.properties", error=errno.EIO))
    found = opened(config, disk)
    assert (paths(found), found.failed) == (["/a", "/c"], {"/b": None})
    assert found.working_ids() == [ids[0], ids[2]]
    assert found.previous_broker_epoch == -1


def test_the_directory_of_the_metadata_log_must_work(disk: SimDisk) -> None:
    opened(configured("/a", "/b"), disk)
    disk.failures.append(Failure(call="read", where="/b/meta.properties", error=errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        opened(configured("/a", "/b", metadata="/b"), disk)
    opened(configured("/a", "/b", metadata="/a"), disk)


def test_one_directory_of_partitions_must_work(disk: SimDisk) -> None:
    config = configured("/a", "/b", metadata="/m")
    opened(config, disk)
    for path in ("/a/", "/b/"):
        disk.failures.append(Failure(call="read", where=path, error=errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        opened(config, disk)


def test_a_metadata_directory_beside_the_others_holds_no_partition(disk: SimDisk) -> None:
    found = opened(configured("/a", metadata="/m"), disk)
    assert paths(found) == ["/a"]
    assert not found.are_several
    assert SimFileSystem(disk).exists("/m/meta.properties")


def test_two_directories_with_the_same_id_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        check_meta_properties(
            str(tmp_path / name),
            node_id=1,
            cluster_id=node_config(tmp_path).own.harness_cluster_id,
            new_id=lambda: FIRST,
        )
    config = configured(str(tmp_path / "a"), str(tmp_path / "b"))
    with pytest.raises(StorageMismatchError, match="the same directory"):
        open_directories(config, new_id=id_maker(random.Random(1)), logger=Logger(1), boot_id="boot")


def test_a_refused_directory_leaves_the_marks_of_the_others(tmp_path: Path) -> None:
    config = configured(str(tmp_path / "a"), str(tmp_path / "b"))
    maker = id_maker(random.Random(1))
    directories = open_directories(config, new_id=maker, logger=Logger(1), boot_id="boot")
    assert not directories.close([], offline=[], is_whole=True)
    (tmp_path / "b" / "meta.properties").write_text("node.id=7\n")
    with pytest.raises(StorageMismatchError):
        open_directories(config, new_id=maker, logger=Logger(1), boot_id="boot")
    assert (tmp_path / "a" / CLEAN_SHUTDOWN_FILE).exists()


def test_making_ids_takes_nothing_from_the_random_numbers_of_the_broker() -> None:
    rng, same = random.Random(5), random.Random(5)
    made = [id_maker(rng)() for _ in range(3)]
    assert rng.random() == same.random()
    assert made[0] == made[1]
    assert id_maker(random.Random(6))() != made[0]
