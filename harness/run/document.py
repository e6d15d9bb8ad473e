"""cell.json as docs/internals/contracts.md lays it out, from a planned cell. Pure."""

from __future__ import annotations

from typing import Any

from harness.clusters.base import Cluster
from harness.plan import PlannedCell
from harness.run.context import RunContext


def cell_document(planned: PlannedCell, cluster: Cluster, order: int, context: RunContext) -> dict[str, Any]:
    workload = planned.workload.model_dump(mode="json")
    return {
        "cell_id": planned.cell_id,
        "kind": planned.kind,
        "title": planned.title,
        "client": planned.client,
        "engine": cluster.engine,
        "engine_version": cluster.version,
        "brokers": len(cluster.broker_ids),
        "repetition": planned.repetition,
        "fork": planned.fork if planned.kind == "sweep" else None,
        "order": order,
        "scenario": planned.scenario or None,
        "case": planned.case or None,
        "damage": planned.damage or None,
        "note": planned.note,
        "about": planned.about,
        "source": planned.source,
        "changed": planned.changed,
        "properties": dict(planned.properties),
        "topic": {
            "name": planned.topic_name,
            "partitions": planned.partitions,
            "replication_factor": planned.replication_factor,
            "config": dict(planned.topic_config),
        },
        "workload": workload,
        "knobs": planned.knobs,
        "factors": dict(planned.factors),
        "baseline": planned.baseline,
        "expect": dict(planned.expect),
        "criteria": [dict(item) for item in planned.criteria],
        "tags": list(planned.tags),
        "has_faults": planned.has_faults,
        "proxied": cluster.proxied,
        "path": cluster.path_description,
        "seed": planned.seed,
        "command": f"{context.command} --cell {planned.cell_id}",
        "broker_settings": dict(planned.broker_settings),
        "certificate": context.certification.of(planned),
    }
