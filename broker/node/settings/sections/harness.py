"""Settings that are not Kafka's: what the harness, its faults and its mutants need of a broker.

Shown by tests/broker_node/test_node_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from broker.node.settings.values import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessSettings:
    # The address, such as a proxy's, at which this node connects to another one. The key is the node id.
    harness_routes_internal: Mapping[int, Address] = field(default_factory=dict)
    harness_routes_controller: Mapping[int, Address] = field(default_factory=dict)
    harness_journal_path: Path | None = None  # None: there is no journal
    harness_journal_appends: bool = False  # The journal also has a line for each append, which costs time.
    harness_allow_remote: bool = False  # allows listeners without authentication that other machines can reach
    # its first int64 is the wall clock's offset in ns; None: the host's clock
    harness_clock_control: Path | None = None
    harness_disk_faults: Path | None = None  # control file of broker.log.disk_faults; None: no disk faults
    # The total of bytes in answers that clients have not read. With a higher value more slow readers stay connected,
    # but it takes memory.
    harness_unread_answer_bytes: int = 1 << 30
    harness_cluster_id: str = "cmVmZXJlbmNlLWJyb2tlcg"  # in Kafka's form: 16 bytes in base64
    harness_share_version: int = 1  # the level of share.version in a new cluster; 0: without share groups
    harness_mutant: str = ""  # the name of a deliberately wrong variant (broker.mutants); empty: none
    # Acknowledges Produce without storing: a null broker to calibrate load generators. Nothing can be read back.
    harness_discard: bool = False
