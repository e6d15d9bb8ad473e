"""`python -m workloads.clients.fates_page > docs/reference/send-fates.md`: what an error says of a send, from the two
tables.

Shown by tests/workloads/test_workloads_fates.py, which compares the page with them.
"""

from __future__ import annotations

import sys

from broker.door.protocol import FATES, Proof, error_name
from runlog.streams.schema import SendStatus
from workloads.clients.fates import HIDDEN_ATTEMPTS, LOCAL_FATES

_HEAD = """# What an error says of a send

Written by `python -m workloads.clients.fates_page > docs/reference/send-fates.md`, from the tables that the clients
use.

A send is **acked** with the broker's word only. It is **failed** only if the record certainly is not in the log. All
else is **unknown**: it may be in the log or not, and the report counts it as neither lost nor phantom. A wrong "failed"
would be a false verdict, since a failed record that turns up in the log is an unlawful `phantom`.

## A broker's answer

- *never appended*: failed, however many attempts there were. What is refused is the same in each of them.
- *not by this attempt*: failed if the client made one attempt only. Otherwise unknown, since an earlier attempt
  whose answer was lost may be in the log. Client `reference` knows its own attempts. The other libraries do not tell
  theirs, so that there the send is failed with `retries=0` alone.
- *perhaps appended*: unknown. So is each code that is not listed here.

| code | name | retriable | the record | why | source |
|---|---|---|---|---|---|
"""
_LOCAL = """
## Without a broker's answer

What the libraries themselves report. "Offered again": the load generator keeps the record and waits for space.

| client | event | the send is | why |
|---|---|---|---|
"""


def render() -> str:
    order = list(Proof)
    fates = sorted(FATES.values(), key=lambda fate: (order.index(fate.proof), int(fate.code)))
    answers = "".join(
        f"| {int(fate.code)} | {error_name(fate.code)} | {'yes' if fate.is_retriable else 'no'} | {fate.proof.value} |"
        f" {fate.reason} | {fate.source} |\n"
        for fate in fates
    )
    local = "".join(
        f"| `{fate.client}` | {fate.event} | {_shown(fate.status)} | {fate.reason} |\n" for fate in LOCAL_FATES
    )
    hidden = "".join(f"- `{client}`: {reason}.\n" for client, reason in HIDDEN_ATTEMPTS.items())
    return f"{_HEAD}{answers}{_LOCAL}{local}\nAttempts that cannot be seen:\n\n{hidden}"


def _shown(status: SendStatus | None) -> str:
    return "offered again" if status is None else status.name.lower()


if __name__ == "__main__":
    sys.stdout.write(render())
