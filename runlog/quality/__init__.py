"""How far a cell can be trusted: criteria, whether its rate was steady, whether others disturbed the host.

The harness asks this between two cells, and the analysis afterwards. Both must get the same answer.
"""
