"""The broker process: `python -m broker.node FILE.properties`. It puts sockets, timers and disks around the pure cores.

    __main__       the entry: configuration, event loop, exit codes
    broker         builds the parts, connects them, starts and stops them
    api_table      all APIs: the kernel's and those of the features

These packages are listed from the top to the bottom. Each imports only those below it (`pyproject.toml`):

    features/      what is not of the kernel: one folder a feature, and the table that switches them on
    handlers/      answers to requests: one file for each API, their table, forwarding to the controller
    coordination/  consumer groups and transactions
    replicas/      partitions: logs and replication cores, fetching, recovery, cleaning
    cluster/       quorum and controller, registration and heartbeats, requests to other nodes
    net/           connections, channels, and their limits
    settings/      every setting of Kafka, the effective settings of a topic
    process/       clocks, log lines, journal, background tasks


`settings_page`, `protocol_page` and `authorization_page` write pages of docs/reference from the tables in the code.
Only the simulation, the mutants and tests import this package: a broker is started as a process.
"""
