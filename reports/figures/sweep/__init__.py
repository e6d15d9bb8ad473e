"""What a sweep says: effects of settings with intervals, the front, a recommendation, and how fine the run could see.

Reads `CellFacts` and verdicts, knows nothing of Spark or pages. `analysis.py` puts the parts together.
"""
