"""The broker process: `python -m broker.node FILE.properties`. It puts sockets, timers and disks around the pure cores.

    __main__       the entry: configuration, event loop, exit codes
    broker         builds the parts, connects them, starts and stops them

Rooms, from the top to the bottom; each imports only those below it (`pyproject.toml`):

    handlers/      what is answered: one file per API, the table of them, forwarding to the controller
    coordination/  consumer groups and transactions
    replicas/      partitions: logs and replication cores, fetching, recovery, cleaning
    cluster/       quorum and controller, registration and heartbeats, requests to other nodes
    net/           connections, channels, what bounds them
    settings/      every setting of Kafka, what is in effect for a topic
    process/       clocks, log lines, journal, background tasks

`settings_page` and `protocol_page` write pages of docs/reference from the tables in the code.
Nobody imports this package but the simulation, the mutants and tests: a broker is started as a process.
"""
