"""Where a program of the search takes place, without any cluster: all is whole, and nobody writes or changes anything.

A test replaces what it is about.
"""

from __future__ import annotations

from typing import Final

from harness.explore.execution.subject import Site
from harness.explore.trial.topics import Topics

SITE: Final = Site(
    bootstrap_servers="127.0.0.1:1", topics=Topics(("t",), 1), group="g", transactional_id="x", client_id="c",
    log_starts=dict, log_ends=dict, write=lambda *_: None, write_in_transaction=lambda *_: None,
    compact=lambda: None, change=lambda _: None,
    is_settled=lambda: True, is_healed=lambda: True, has_met=lambda: True, failed_codes=(),
)  # fmt: skip
