"""One Spark session for all tests of this directory, and two analysed runs that several of them look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from reports.analyse.analysis import analyse
from reports.read.cell import Run
from reports.read.model import CellFacts
from reports.read.run_files import read_run
from reports.read.session import Session
from reports.read.spark_needs import JavaMissingError, require_java
from tests.reports.readers_run import Analysed, analysed_in
from tests.reports.synthetic_run import Damage, SyntheticCell, write_run


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    try:
        require_java()
    except JavaMissingError as error:
        pytest.skip(str(error))
    with Session(master="local[2]", small=True) as session:
        yield session


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    run: Run
    directory: Path
    cells: list[SyntheticCell]
    facts: list[CellFacts]


def planted_cells() -> list[SyntheticCell]:
    """Each anomaly alone, all of them at once under several seeds, calm cells, and a small sweep."""
    single = {
        "lost": Damage(lost_batches=11),
        "duplicated": Damage(duplicated_batches=6),
        "reordered": Damage(reordered_batches=5),
        "recovered": Damage(recovered=9),
        "unexpected": Damage(unexpected=4),
        "corrupt": Damage(corrupt=3),
        "dup_delivered": Damage(dup_delivered=8),
        "calm": Damage(),
    }
    cells = [SyntheticCell(cell_id=name, damage=damage, seed=3) for name, damage in single.items()]
    everything = Damage(
        lost_batches=4,
        duplicated_batches=5,
        reordered_batches=6,
        recovered=7,
        unexpected=3,
        corrupt=2,
        dup_delivered=9,
    )
    cells += [
        SyntheticCell(cell_id=f"all-{seed}", damage=everything, seed=seed, journal=seed % 2 == 0) for seed in (1, 2)
    ]
    # One producer and one partition: offsets and sequences run in step, so that whole blocks are skipped unsorted.
    cells += [
        SyntheticCell(cell_id="dense", damage=Damage(reordered_batches=3), seed=5, producers=1, partitions=1),
        SyntheticCell(cell_id="dense-all", damage=everything, seed=6, producers=1, partitions=1),
    ]
    knobs = {"acks": "all", "linger.ms": "5"}
    for name, change in (
        ("base", {}),
        ("acks", {"acks": "1"}),
        ("linger", {"linger.ms": "20"}),
        ("none", {"acks": "0"}),
    ):
        mine = {**knobs, **change}
        document = {"knobs": mine, "baseline": not change}
        cells.append(
            SyntheticCell(cell_id=f"sweep-{name}", kind="sweep", properties=mine, document=document, service_us=4000)
        )
    return [cell.build() for cell in cells]


@pytest.fixture(scope="session")
def planted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Planted:
    cells = planted_cells()
    directory = write_run(tmp_path_factory.mktemp("run") / "a run [1]", cells)
    run = read_run(directory)
    return Planted(run=run, directory=directory, cells=cells, facts=analyse(spark, run))


@pytest.fixture(scope="session")
def analysed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Analysed:
    return analysed_in(tmp_path_factory.mktemp("readers") / "run", spark)
