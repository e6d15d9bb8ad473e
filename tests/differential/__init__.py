"""Both brokers side by side. The helpers of tests/broker_node start them, so its directory is made importable here."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "broker_node"))
