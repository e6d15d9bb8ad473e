"""The record of cell.json, from a planned cell and what became of it. Pure."""

from __future__ import annotations

from harness.clusters.cluster import Cluster
from harness.plan import PlannedCell
from harness.run.context import RunContext
from runlog.records.cell import (
    CellKind,
    CellRecord,
    CriterionRecord,
    Expectations,
    FilesRecord,
    OutcomeRecord,
    TopicRecord,
)
from runlog.records.codec import from_document
from runlog.records.workload import WorkloadRecord


def cell_record(
    planned: PlannedCell,
    cluster: Cluster,
    order: int,
    context: RunContext,
    *,
    outcome: OutcomeRecord,
    files: FilesRecord | None,
) -> CellRecord:
    return CellRecord(
        cell_id=planned.cell_id,
        kind=CellKind(planned.kind),
        title=planned.title,
        client=planned.client,
        engine=cluster.engine,
        engine_version=cluster.version,
        brokers=len(cluster.broker_ids),
        repetition=planned.repetition,
        fork=planned.fork if planned.kind == "sweep" else None,
        order=order,
        scenario=planned.scenario or None,
        case=planned.case or None,
        damage=planned.damage or None,
        note=planned.note,
        about=planned.about,
        source=planned.source,
        changed=planned.changed,
        properties=dict(planned.properties),
        topic=TopicRecord(
            name=planned.topic_name,
            partitions=planned.partitions,
            replication_factor=planned.replication_factor,
            config=dict(planned.topic_config),
        ),
        workload=from_document(WorkloadRecord, planned.workload.model_dump(mode="json")),
        knobs=planned.knobs,
        factors=dict(planned.factors),
        baseline=planned.baseline,
        expect=from_document(Expectations, planned.expect),
        criteria=tuple(from_document(CriterionRecord, item) for item in planned.criteria),
        limits=tuple(planned.limits),
        tags=tuple(planned.tags),
        has_faults=planned.has_faults,
        proxied=cluster.proxied,
        path=cluster.path_description,
        seed=planned.seed,
        command=f"{context.command} --cell {planned.cell_id}",
        broker_settings=dict(planned.broker_settings),
        certificate=context.certification.of(planned),
        outcome=outcome,
        files=files,
    )
