"""Load: open-loop schedules, payloads, Locust users and client adapters; writes `send` and `recv` through runlog."""
