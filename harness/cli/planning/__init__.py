"""From suites and options to the cells that will run, and the plan in words. Nothing is started.

- `planned_cells`: the cells of a plan; what can never work is refused here
- `fitting`: which of them can run with this cluster and this client
- `external_settings`: which of them somebody else's brokers can run, as these are set
- `plan_text`: the plan in words, and how long it takes
- `speed_note`: what its figures of speed will be worth
"""
