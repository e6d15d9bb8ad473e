"""Layouts: every ordered link has an address of its own, and a proxied broker reaches its peers by nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.interposer import fault_page
from harness.clusters.base import ClusterLayout
from harness.clusters.cluster_id import new_cluster_id
from harness.clusters.kafka.layout import as_release, kafka_layout
from harness.clusters.layout_reference import reference_layout
from harness.clusters.node_files import rewrite_properties
from harness.clusters.ports import PortAllocator
from harness.clusters.storage import BrokerStorage
from harness.kafka_releases import DEFAULT, Release


def reference(tmp_path: Path, *, proxied: bool, log_directories: int = 1, racks: tuple[str, ...] = ()) -> ClusterLayout:
    return reference_layout(
        tmp_path,
        brokers=3,
        racks=racks,
        log_directories=log_directories,
        settings={"num.partitions": "4"},
        proxied=proxied,
        journal_appends=True,
        ports=PortAllocator(),
        cluster_id=new_cluster_id(),
    )


def kafka(
    tmp_path: Path,
    *,
    proxied: bool,
    log_directories: int = 1,
    racks: tuple[str, ...] = (),
    interposer: Path | None = None,
    releases: tuple[Release, ...] = (DEFAULT,),
) -> ClusterLayout:
    return kafka_layout(
        tmp_path,
        brokers=3,
        racks=racks,
        log_directories=log_directories,
        settings={"num.partitions": "4"},
        proxied=proxied,
        java="java",
        jars={release: Path(f"/jars/{release}") for release in releases},
        releases=releases,
        ports=PortAllocator(),
        cluster_id=new_cluster_id(),
        interposer=interposer,
    )


@pytest.mark.parametrize("make", [reference, kafka])
def test_a_proxied_cluster_has_a_proxy_for_every_ordered_link(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    layout = make(tmp_path, proxied=True)
    expected = {f"client-{j}" for j in (1, 2, 3)}
    expected |= {
        f"{kind}-{i}-{j}" for kind in ("internal", "controller") for i in (1, 2, 3) for j in (1, 2, 3) if i != j
    }
    assert {link.name for link in layout.links} == expected
    assert len({str(link.listen) for link in layout.links}) == len(layout.links)
    for node in layout.nodes:
        link = next(link for link in layout.links if link.name == f"client-{node.broker_id}")
        assert node.advertised == link.listen
        assert f"EXTERNAL://{link.listen}" in node.properties["advertised.listeners"]
        assert node.properties["num.partitions"] == "4"


@pytest.mark.parametrize(("settings", "module"), [({}, "broker.node"), ({"harness.mutant": "m"}, "broker.mutants")])
def test_a_mutant_is_started_by_an_entry_of_its_own(tmp_path: Path, settings: dict[str, str], module: str) -> None:
    layout = reference_layout(
        tmp_path,
        brokers=1,
        settings=settings,
        proxied=False,
        journal_appends=False,
        ports=PortAllocator(),
        cluster_id=new_cluster_id(),
    )
    assert layout.nodes[0].command[1:3] == ("-m", module)


@pytest.mark.parametrize("make", [reference, kafka])
def test_an_unproxied_cluster_has_no_link_and_advertises_itself(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    layout = make(tmp_path, proxied=False)
    assert layout.links == ()
    for node in layout.nodes:
        assert f"EXTERNAL://{node.advertised}" in node.properties["listeners"]


def test_a_reference_broker_dials_peers_by_its_own_links(tmp_path: Path) -> None:
    layout = reference(tmp_path, proxied=True)
    for node in layout.nodes:
        for kind in ("internal", "controller"):
            routes = dict(entry.split("@") for entry in node.properties[f"harness.routes.{kind}"].split(","))
            assert routes == {
                str(link.target): str(link.listen)
                for link in layout.links
                if link.kind == kind and link.source == node.broker_id
            }


def test_a_kafka_node_sees_peers_at_the_links_addresses_and_itself_directly(tmp_path: Path) -> None:
    for node in kafka(tmp_path, proxied=True).nodes:
        own = node.broker_id
        text = next(text for path, text in node.files.items() if path.name == "hosts")
        hosts = {name: address for address, name in (line.split() for line in text.splitlines())}
        assert hosts == {
            "localhost": "127.0.0.1",
            **{f"broker-{peer}": f"127.0.{own}.{peer}" if peer != own else f"127.0.0.{own}" for peer in (1, 2, 3)},
        }


def test_only_an_interposed_kafka_node_has_the_library_before_it(tmp_path: Path) -> None:
    library = tmp_path / "interposer.so"
    usual = kafka(tmp_path, proxied=True).nodes[1]
    assert (usual.environment, usual.fault_page) == ({}, None)
    node = kafka(tmp_path, proxied=True, interposer=library).nodes[1]
    assert node.fault_page == node.directory / "fault-page"
    assert node.environment == {"LD_PRELOAD": str(library), fault_page.ENVIRONMENT: str(node.fault_page)}


@pytest.mark.parametrize("make", [reference, kafka])
def test_with_several_log_directories_the_metadata_log_is_in_none_of_them(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    for node in make(tmp_path, proxied=False, log_directories=2).nodes:
        data = node.directory / "data"
        assert node.storage.log_directories == (data / "1", data / "2")
        assert node.properties["log.dirs"] == f"{data / '1'},{data / '2'}"
        assert node.properties["metadata.log.dir"] == str(data / "metadata")
    for node in make(tmp_path, proxied=False).nodes:
        assert node.properties["log.dirs"] == str(node.directory / "data")
        assert "metadata.log.dir" not in node.properties


@pytest.mark.parametrize("make", [reference, kafka])
def test_brokers_are_in_the_racks_in_turn(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    for racks, expected in ((("a", "b", "c"), ["a", "b", "c"]), (("a", "b"), ["a", "b", "a"]), ((), [None] * 3)):
        nodes = make(tmp_path, proxied=False, racks=racks).nodes
        assert [node.properties.get("broker.rack") for node in nodes] == expected


@pytest.mark.parametrize(("count", "place"), [(1, "t-0"), (2, "1/t-0"), (2, "2/t-0")])
def test_a_partition_is_found_in_every_log_directory(tmp_path: Path, count: int, place: str) -> None:
    storage = BrokerStorage(data=tmp_path, count=count)
    (tmp_path / place).mkdir(parents=True)
    assert storage.find_partition("t", 0) == tmp_path / place
    assert storage.find_partition("t", 1) is None


def test_the_nodes_of_a_cluster_share_its_id(tmp_path: Path) -> None:
    ids = {node.properties["harness.cluster.id"] for node in reference(tmp_path, proxied=False).nodes}
    assert len(ids) == 1
    assert ids != {node.properties["harness.cluster.id"] for node in reference(tmp_path, proxied=False).nodes}


def test_cluster_ids_have_the_form_that_storage_tool_takes() -> None:
    ids = {new_cluster_id() for _ in range(50)}
    assert len(ids) == 50
    assert all(len(text) == 22 and text[0].isalpha() for text in ids)


OLD, NEW = Release(3, 3, 2), Release(4, 4, 0)


def test_each_kafka_broker_has_the_jars_of_its_release_and_the_oldest_formats_all_of_them(tmp_path: Path) -> None:
    """A newer StorageTool would write a metadata.version that the older brokers do not know."""
    layout = kafka(tmp_path, proxied=False, releases=(NEW, OLD))
    assert [node.release for node in layout.nodes] == [NEW, OLD, NEW]
    assert [node.command[node.command.index("-cp") + 1] for node in layout.nodes] == [
        "/jars/4.4.0/*", "/jars/3.3.2/*", "/jars/4.4.0/*",
    ]  # fmt: skip
    assert {command[command.index("-cp") + 1] for node in layout.nodes for command in node.prepare_commands} == {
        "/jars/3.3.2/*"
    }
    assert layout.version == "Apache Kafka 4.4.0 and 3.3.2"


def test_only_brokers_that_take_it_advertise_the_controllers_listener(tmp_path: Path) -> None:
    """Before 3.9 a broker ends if it stands there."""
    told = [
        "CONTROLLER://" in node.properties["advertised.listeners"]
        for node in kafka(tmp_path, proxied=True, releases=(Release(3, 8, 1), Release(3, 9, 0), NEW)).nodes
    ]
    assert told == [False, True, True]


@pytest.mark.parametrize("proxied", [True, False])
def test_a_node_with_another_release_is_the_one_that_begins_with_it(tmp_path: Path, proxied: bool) -> None:
    """But for its place: the data, the addresses and the hosts file stay its own."""
    began, wanted = (kafka(tmp_path, proxied=proxied, releases=(each,)).nodes[1] for each in (OLD, NEW))
    changed = as_release(began, NEW, Path("/jars/4.4.0"))
    assert changed.release == NEW
    assert changed.command == wanted.command
    assert changed.storage == began.storage
    assert [_names(node.properties["advertised.listeners"]) for node in (began, changed, wanted)] == [
        ["EXTERNAL", "INTERNAL", "DIRECT"],
        ["EXTERNAL", "INTERNAL", "DIRECT", "CONTROLLER"],
        ["EXTERNAL", "INTERNAL", "DIRECT", "CONTROLLER"],
    ]
    (controller,) = [each for each in began.properties["listeners"].split(",") if each.startswith("CONTROLLER")]
    assert changed.properties["advertised.listeners"].endswith(f"CONTROLLER://broker-2:{controller.rpartition(':')[2]}")
    assert as_release(changed, OLD, Path("/jars/3.3.2")) == began


def _names(listeners: str) -> list[str]:
    return [each.partition(":")[0] for each in listeners.split(",")]


def test_only_what_a_release_changes_is_rewritten_in_the_brokers_file(tmp_path: Path) -> None:
    """With made-up access the file has passwords, which stand in no layout."""
    node = kafka(tmp_path, proxied=True, releases=(OLD,)).nodes[0]
    path = Path(node.command[-1])
    path.parent.mkdir(parents=True)
    path.write_text("a.password=s=cret\nadvertised.listeners=old\nnode.id=7\n", encoding="utf-8")
    changed = as_release(node, NEW, Path("/jars/4.4.0"))
    rewrite_properties(changed)
    assert path.read_text(encoding="utf-8").splitlines() == [
        "a.password=s=cret", f"advertised.listeners={changed.properties['advertised.listeners']}", "node.id=7",
    ]  # fmt: skip
