"""Commands that put load on a cluster: `harness run`, `harness bench`, `harness chaos` and `harness confirm`.

- `commands`: their options
- `run`: from suites and options to runs, their reports and one exit code
- `bench`: a suite of one configuration
- `chaos_suites`, `all_scenarios`: the suites of `harness chaos`, and the question whether all scenarios are wanted
- `confirm`: the cell that a sweep recommends, once more
"""
