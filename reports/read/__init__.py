"""From a run directory to values: documents, event lines, streams as tables, and the Spark session that reads them.

The lowest room of `reports`: it imports no other one.
"""
