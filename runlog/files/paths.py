"""The paths in a run directory."""

from __future__ import annotations

from pathlib import Path


def manifest_path(run_dir: Path) -> Path:
    return run_dir / "manifest.json"


def cell_directory(run_dir: Path, cell_id: str) -> Path:
    return run_dir / "cells" / cell_id


def live_directory(run_dir: Path, cell_id: str) -> Path:
    return cell_directory(run_dir, cell_id) / "live"


def events_path(run_dir: Path, cell_id: str, name: str) -> Path:
    """Path of the cell's `cluster`, `faults`, `wire` or `stats` events."""
    return cell_directory(run_dir, cell_id) / f"{name}.jsonl"
