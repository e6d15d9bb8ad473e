"""Ids of clusters, in Kafka's form: a random UUID as 22 characters of URL-safe base64."""

from __future__ import annotations

import base64
import uuid


def new_cluster_id() -> str:
    """The first character is a letter, because StorageTool would take a leading dash for an option."""
    return "H" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
