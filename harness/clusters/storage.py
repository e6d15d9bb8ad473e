"""Where a broker of ours keeps its logs: one log directory, or several (JBOD).

All of it lies below one directory. With several log directories the metadata log has a directory of its own, because a
broker ends if the directory with the metadata log fails. Shown by tests/harness/test_harness_layouts.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

METADATA: Final = "metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStorage:
    data: Path  # everything that the broker stores is here
    count: int = 1  # It counts log directories.

    @property
    def log_directories(self) -> tuple[Path, ...]:
        if self.count == 1:
            return (self.data,)
        return tuple(self.data / str(number) for number in range(1, self.count + 1))

    @property
    def settings(self) -> Mapping[str, str]:
        """The broker's settings for its directories."""
        settings = {"log.dirs": ",".join(map(str, self.log_directories))}
        return settings if self.count == 1 else {**settings, "metadata.log.dir": str(self.data / METADATA)}

    def find_partition(self, topic: str, partition: int) -> Path | None:
        """The directory of the partition's log. None if the broker has none."""
        paths = (directory / f"{topic}-{partition}" for directory in self.log_directories)
        return next((path for path in paths if path.is_dir()), None)
