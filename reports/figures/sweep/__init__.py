"""What a sweep shows: effects of settings with intervals, the Pareto front, a recommendation, and the smallest effect
that the run could detect.

Reads `CellFacts` and verdicts, knows nothing of Spark or pages. `sweep_analysis.py` puts the parts together.
"""
