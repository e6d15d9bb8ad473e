"""Sentences of doubts that other places phrase differently. Pure, and light: the command line imports it.

A terminal lists the problems of the run and the reasons of each cell. It leaves out the doubts that say the same.
Shown by tests/reports/test_reports_reading.py.
"""

from __future__ import annotations


def of_problem(problem: str) -> str:
    return f"{problem}: this run is no pass"


def of_inconclusive(title: str, reason: str) -> str:
    return f"{title} says nothing either way: {reason}"


def of_more_inconclusive(number: int) -> str:
    return f"{number} more cells are inconclusive"
