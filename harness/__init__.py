"""The roof: what a run is, how it is planned, carried out and asked for on the command line."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
