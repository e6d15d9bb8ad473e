"""Every feature of the table, by section, in the table's order."""

from __future__ import annotations

from tests.compatibility.features import administration, groups, records, restarts, transactions
from tests.compatibility.features.feature import Feature

SECTIONS: dict[str, tuple[Feature, ...]] = {
    "Records": records.FEATURES,
    "Transactions": transactions.FEATURES,
    "Groups": groups.FEATURES,
    "Administration": administration.FEATURES,
    "Brokers that die": restarts.FEATURES,
}
