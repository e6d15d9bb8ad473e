"""The handlers of the APIs: one file for each API, named by its key, and a table of all (table.py)."""
