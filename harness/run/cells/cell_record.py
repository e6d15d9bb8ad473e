"""The record of cell.json: the plan, and what is known since the cell began. Pure."""

from __future__ import annotations

from dataclasses import replace

from harness.cluster_security import security_of_client
from harness.clusters.cluster import Cluster
from harness.planned_cell import PlannedCell
from harness.run.context import RunContext
from harness.run.directory.reproduce import cell_command
from runlog.records.cell import CellRecord, FilesRecord, OutcomeRecord
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
    return replace(
        planned.record,
        engine=cluster.engine,
        engine_version=cluster.version,
        brokers=len(cluster.broker_ids),
        log_directories=None if cluster.engine == "external" else planned.log_directories,
        racks=() if cluster.engine == "external" else planned.racks,
        order=order,
        topic=replace(planned.record.topic, name=planned.topic_name),
        workload=from_document(WorkloadRecord, planned.workload.model_dump(mode="json")),
        proxied=cluster.proxied,
        path=cluster.path_description,
        # Our own cluster has the security that was planned. For an external cluster the clients' properties show it.
        security=(
            planned.security if planned.security.is_secured else security_of_client(cluster.client_properties)
        ).label,
        command=cell_command(context.argv, context.seed, cell_id=planned.cell_id, kind=planned.record.kind),
        certificate=context.certification.of(planned),
        outcome=outcome,
        files=files,
    )
