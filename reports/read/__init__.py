"""From a run directory to values: documents, event lines, streams as tables, and the Spark session that reads them.

It is the lowest package of `reports` and imports no other one.
"""
