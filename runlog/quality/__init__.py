"""What may be believed of a cell: criteria, whether its rate was steady, whether the host was its own.

Asked by the harness between two cells, and by the analysis afterwards: both must come to the same answer.
"""
