"""The report: Spark in a process of its own, and what comes out of it.

- `reporting`: the whole report, its verdicts in the terminal, and the exit code
- `analysis_process`: `python -m reports` as a child, begun at once or made ready while a run still ends
- `artifacts`: one directory for a CI system to keep
- `spark_choice`: where Spark runs and what it is set to, as commands pass it on
"""
