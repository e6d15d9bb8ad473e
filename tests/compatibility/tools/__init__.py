"""Kafka's own command line tools: each a name of the table, what was asked of it, and a function that tries it."""

from __future__ import annotations

from tests.compatibility.tools import administration, load, logs

TOOLS = (*administration.TOOLS, *load.TOOLS, *logs.TOOLS)
