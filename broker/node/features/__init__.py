"""What a broker can do beside its kernel: one folder a feature, and the table of all (table.py).

A feature may use every part of the kernel below it. The kernel uses a feature only by its row in the table
(broker/node/feature.py has the columns). `pyproject.toml` checks both.
"""
