"""The broker process: `python -m broker.node FILE.properties`. Sockets, timers, disks around the pure cores.

    __main__     entry: configuration, event loop, exit codes       config       Kafka properties -> NodeConfig
    broker       builds the parts, starts and stops them            journal      what happened, one JSON object a line
    connection   one client connection, frames handled in place     server       listeners, dispatch to handlers/
    channel      one connection to a peer, with time limits         metadata     shell of quorum and controller
    lifecycle    registration, heartbeats, controlled shutdown      metadata_store  quorum-state and the metadata log
    partitions   logs + replication cores of this broker            fetcher      pulls from a leader broker
    isr          AlterPartition to the controller                   handlers/    one file per API

Nobody imports this package but its own tests: a broker is started as a process. Groups and transactions will live in
broker/coordinator; FindCoordinator answers COORDINATOR_NOT_AVAILABLE until then.
"""
