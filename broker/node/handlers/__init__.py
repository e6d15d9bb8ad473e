"""What a broker answers: one file per API, named by its key, and the table of them (table.py)."""
