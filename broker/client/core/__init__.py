"""The client's decisions: no socket, no thread, no clock. Time comes in as `now_ms`, actions go out as values."""
