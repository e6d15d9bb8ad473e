"""Several log directories in one broker: where logs lie, what a directory that fails costs, what a restart finds."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from directories_helper import PATHS, TOPIC, Broker, fail, looped, new_disk
from partitions_helper import node_config

from broker.log.checkpoints import CLEAN_SHUTDOWN_FILE, HIGH_WATERMARK_FILE, RECOVERY_POINT_FILE
from broker.node.handlers.api_62_broker_registration import refusal
from broker.node.settings.config import changed
from broker.sim.disk import Failure, SimDisk
from broker.sim.filesystem import SimFileSystem
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request


@looped
def test_a_new_log_goes_where_there_are_fewest() -> None:
    disk = new_disk()
    broker = Broker(disk)
    broker.apply(5)
    assert broker.paths(5) == ["/a", "/b", "/a", "/b", "/a"]
    broker.replicas.close()
    again = Broker(disk, paths=("/a", "/b", "/c"))
    again.apply(9)
    assert again.paths(9) == ["/a", "/b", "/a", "/b", "/a", "/c", "/c", "/b", "/c"]


@looped
def test_a_cordoned_directory_gets_no_new_log_unless_all_are_cordoned() -> None:
    broker = Broker(new_disk())
    broker.apply(2)
    assert broker.directories.cordon([Path("/a")])
    assert not broker.directories.cordon([Path("/a")]), "it is so already"
    assert broker.directories.cordoned_ids() == [broker.id_of("/a")]
    broker.apply(4)
    assert broker.paths(4) == ["/a", "/b", "/b", "/b"]
    broker.directories.cordon([Path("/a"), Path("/b")])
    broker.apply(5)
    assert broker.paths(5)[4] == "/a", "the first one, as in Apache Kafka"
    broker.directories.cordon([])
    broker.apply(6)
    assert broker.paths(6)[5] == "/a"


@pytest.mark.parametrize(
    ("told", "error"),
    [
        ({"log_dirs": []}, ErrorCode.invalid_registration),
        ({"log_dirs": [UUID(int=2**100)]}, None),
        ({"log_dirs": [], "cluster_id": "other"}, ErrorCode.inconsistent_cluster_id),
    ],
)
def test_a_broker_without_log_directories_cannot_register(told: dict[str, Any], error: ErrorCode | None) -> None:
    fields: dict[str, Any] = {
        "broker_id": 1, "cluster_id": "c", "incarnation_id": UUID(int=5), "listeners": [], "features": [], "rack": None,
    }  # fmt: skip
    message = request(ApiKey.BROKER_REGISTRATION, 4, **{**fields, **told})
    services: Any = SimpleNamespace(config=changed(node_config(Path("unused")), harness_cluster_id="c"))
    asked: Any = SimpleNamespace(message=message, version=4)
    answer = refusal(services, asked)
    assert (None if answer is None else answer.error_code) == error


@looped
def test_a_new_log_goes_where_the_controller_has_it() -> None:
    broker = Broker(new_disk())
    broker.apply(3, where={0: broker.id_of("/b"), 1: broker.id_of("/b"), 2: UUID(int=2**100)})
    assert broker.paths(3) == ["/b", "/b", "/a"]


@looped
def test_a_directory_that_fails_takes_its_partitions_offline_and_no_other() -> None:
    disk = new_disk()
    broker = Broker(disk)
    broker.apply(4)
    failed, works = broker.id_of("/a"), broker.id_of("/b")
    fail(disk, "/a/t-2/")
    assert broker.append(2) is ErrorCode.kafka_storage_error
    assert broker.partitions.offline() == [(TOPIC, 0), (TOPIC, 2)]
    assert broker.partitions.offline_directories() == [failed]
    assert broker.directories.working_ids() == [works]
    assert broker.told
    assert not broker.ended
    assert (broker.append(1), broker.append(3)) == (ErrorCode.none, ErrorCode.none)
    broker.apply(4, epoch=1)  # they are offered again, and stay offline
    assert broker.partitions.offline() == [(TOPIC, 0), (TOPIC, 2)]
    assert broker.partitions.directory_id(TOPIC, 0) == failed  # to be told to the controller
    broker.apply(6, epoch=2)  # a new log goes where one can
    assert [broker.path(4), broker.path(5)] == ["/b", "/b"]


@looped
def test_the_last_directory_that_fails_ends_the_broker() -> None:
    disk = new_disk()
    broker = Broker(disk)
    broker.apply(2)
    fail(disk, "/a/")
    assert broker.append(0) is ErrorCode.kafka_storage_error
    assert not broker.ended
    fail(disk, "/b/")
    assert broker.append(1) is ErrorCode.kafka_storage_error
    assert [type(each) for each in broker.ended] == [OSError]
    assert broker.partitions.get(TOPIC, 1) is None


@looped
def test_the_directory_of_the_metadata_log_ends_the_broker() -> None:
    disk = new_disk()
    broker = Broker(disk, metadata="")  # the first one
    broker.apply(2)
    fail(disk, "/b/")
    assert broker.append(1) is ErrorCode.kafka_storage_error
    assert not broker.ended
    again = Broker(new_disk(), metadata="")
    again.apply(2)
    again.partitions.storage_failed(again.hosted(0), OSError(errno.EIO, "no"))
    assert len(again.ended) == 1


@looped
def test_a_damaged_log_costs_its_own_partition_only() -> None:
    broker = Broker(new_disk())
    broker.apply(4)
    broker.partitions.storage_failed(broker.hosted(0), ValueError("damaged"))
    assert broker.partitions.offline() == [(TOPIC, 0)]
    assert len(broker.directories.working) == 2
    assert broker.partitions.is_offline_alone(TOPIC, 0)


@looped
def test_a_checkpoint_that_cannot_be_written_takes_its_directory_offline() -> None:
    disk = new_disk()
    broker = Broker(disk)
    broker.apply(4)
    fail(disk, f"/b/{HIGH_WATERMARK_FILE}", "replace")
    broker.partitions.directories_failed(broker.replicas.upkeep.checkpoint())
    assert broker.partitions.offline() == [(TOPIC, 1), (TOPIC, 3)]
    assert f"/a/{HIGH_WATERMARK_FILE}" in disk.files
    broker.partitions.directories_failed(broker.replicas.upkeep.checkpoint())
    assert not broker.ended


@looped
def test_each_directory_has_the_checkpoints_of_its_own_logs() -> None:
    disk = new_disk()
    broker = Broker(disk)
    broker.apply(3)
    for index in range(3):
        assert broker.append(index) is ErrorCode.none
    broker.replicas.close(broker_epoch=5)
    for name in (HIGH_WATERMARK_FILE, RECOVERY_POINT_FILE):
        assert SimFileSystem(disk).read_bytes(f"/a/{name}").decode().splitlines()[2:] == ["t 0 3", "t 2 3"]
        assert SimFileSystem(disk).read_bytes(f"/b/{name}").decode().splitlines()[2:] == ["t 1 3"]
    again = Broker(disk)
    assert again.directories.was_clean_shutdown
    assert again.directories.previous_broker_epoch == 5
    again.apply(3, epoch=1)
    assert [again.hosted(index).replica.high_watermark for index in range(3)] == [3, 3, 3]


@looped
def test_a_stop_marks_the_directories_that_are_whole() -> None:
    disk = new_disk()
    broker = Broker(disk)
    broker.apply(2)
    fail(disk, "/a/t-0/")
    broker.append(0)
    broker.replicas.close(broker_epoch=5)
    assert [f"{path}/{CLEAN_SHUTDOWN_FILE}" in disk.files for path in PATHS] == [False, True]
    disk.failures.clear()
    again = Broker(disk)
    assert again.directories.previous_broker_epoch == -1  # /a may have lost records
    again.apply(2, epoch=1)
    assert again.append(0) is ErrorCode.none


@looped
def test_a_broker_that_starts_without_a_directory_makes_none_of_its_logs_anew() -> None:
    disk = new_disk()
    broker = Broker(disk)
    broker.apply(2)
    where: dict[int, UUID | None] = {index: broker.id_of(broker.path(index)) for index in (0, 1)}
    assert broker.append(0) is ErrorCode.none
    broker.replicas.close()
    fail(disk, "/a/", "read")
    again = Broker(disk)
    again.apply(2, epoch=1, where=where)
    assert again.partitions.offline() == [(TOPIC, 0)]
    assert again.partitions.offline_directories() == []  # nothing to tell: it is not among those that are registered
    assert again.path(1) == "/b"
    untold = Broker(disk)
    untold.apply(2, epoch=1)  # the controller does not know where they lie
    assert untold.partitions.offline() == [(TOPIC, 0)]
    untold.apply(3, epoch=1)
    assert untold.partitions.offline() == [(TOPIC, 0), (TOPIC, 2)]
    disk.failures.clear()
    third = Broker(disk)
    third.apply(2, epoch=2, where=where)
    assert third.hosted(0).log.log_end_offset == 3


@looped
def test_a_replica_whose_directory_was_replaced_is_made_anew() -> None:
    """The controller knows an id that no directory has any more, and each directory works."""
    disk = new_disk()
    broker = Broker(disk)
    broker.apply(2, where={0: UUID(int=2**101), 1: UUID(int=2**101)})
    assert broker.paths(2) == ["/a", "/b"]


@looped
def test_a_partition_that_moved_away_and_back_gets_a_log_in_a_directory_that_works() -> None:
    disk = new_disk()
    broker = Broker(disk)
    broker.apply(1)
    fail(disk, "/a/t-0/")
    broker.append(0)
    broker.apply(0)
    broker.apply(1, epoch=2)
    assert broker.path(0) == "/b"
    assert broker.append(0) is ErrorCode.none


def copy_log(disk: SimDisk, source: str, target: str) -> None:
    filesystem = SimFileSystem(disk)
    filesystem.make_directory(target)
    for name in filesystem.list_directory(source):
        filesystem.write_atomically(f"{target}/{name}", filesystem.read_bytes(f"{source}/{name}"))


@looped
def test_of_two_logs_of_a_partition_the_one_that_the_controller_knows_counts() -> None:
    disk = new_disk()
    broker = Broker(disk)
    broker.apply(1)
    assert broker.append(0) is ErrorCode.none
    broker.replicas.close()
    copy_log(disk, "/a/t-0", "/b/t-0")
    again = Broker(disk)
    again.apply(1, epoch=1, where={0: again.id_of("/b")})
    assert again.path(0) == "/b"
    assert "t-0" not in SimFileSystem(disk).list_directory("/a")


@looped
def test_two_logs_of_a_partition_are_not_chosen_from_by_guessing() -> None:
    disk = new_disk()
    broker = Broker(disk)
    broker.apply(2)
    broker.replicas.close()
    copy_log(disk, "/a/t-0", "/b/t-0")
    again = Broker(disk)
    again.apply(2, epoch=1)
    assert again.partitions.offline() == [(TOPIC, 0)]
    assert again.partitions.is_offline_alone(TOPIC, 0)
    assert again.path(1) == "/b"
    assert all("t-0" in SimFileSystem(disk).list_directory(path) for path in PATHS)


@looped
def test_a_topic_that_is_deleted_leaves_both_directories() -> None:
    disk = new_disk()
    broker = Broker(disk)
    broker.apply(4)
    broker.apply(0)
    broker.replicas.recovery.finish_discards()
    assert broker.directories.partitions() == []
    for path in PATHS:
        names = SimFileSystem(disk).list_directory(path)
        assert not [name for name in names if name in ("t-0", "t-1", "t-2", "t-3")]
    broker.apply(2, epoch=9, topic_id=UUID(int=8))
    assert broker.paths(2) == ["/a", "/b"]


@pytest.mark.parametrize("call", ["open", "read"])
def test_a_log_that_cannot_be_opened_takes_its_directory_offline(call: str) -> None:
    @looped
    def run() -> None:
        disk = new_disk()
        broker = Broker(disk)
        broker.apply(4)
        broker.append(0)
        broker.replicas.close()
        disk.failures.append(Failure(call=call, where="/a/t-0/", error=errno.EIO, is_once=False))
        again = Broker(disk)
        again.apply(4, epoch=1)
        assert again.partitions.offline() == [(TOPIC, 0), (TOPIC, 2)]
        assert [again.path(1), again.path(3)] == ["/b", "/b"]

    run()
