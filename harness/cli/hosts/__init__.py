"""Commands about this host: `harness doctor`, `harness worker`, `harness load-keys` and `harness clean`.

- `commands`: their options
- `doctor`: tries each part of the set-up
- `load_hosts`: this host as a load host, the keys of the link, and what `harness doctor` says of load hosts
- `fault_worker`, `fault_answers`: this host as a fault host, and what it answers
- `clean`: undoes what processes that are gone have left
"""
