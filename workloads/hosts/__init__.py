"""Load from many hosts: what travels between them over Locust's distributed mode, and what each end does with it.

    harness run ─ pipe ─ hub (Locust master) ═ CURVE over TCP ═ agent (Locust worker) ─ pipe ─ share (Locust users)
    one process each:    here                                    on each load host             for each cell

The decisions are in docs/decisions/0012-load-hosts.md.
"""
