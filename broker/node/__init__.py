"""The broker process: `python -m broker.node FILE.properties`. Sockets, timers, disks around the pure cores.

    __main__     entry: configuration, event loop, exit codes       config       Kafka properties -> NodeConfig
    broker       builds the parts, starts and stops them            journal      what happened, one JSON object a line
    connection   one client connection, frames handled in place     server       listeners, dispatch to handlers/
    channel      one connection to a peer, with time limits         metadata     shell of quorum and controller
    lifecycle    registration, heartbeats, controlled shutdown      metadata_store  quorum-state and the metadata log
    partitions   logs + replication cores of this broker            fetcher      pulls from a leader broker
    isr          AlterPartition to the controller                   handlers/    one file per API
    forwarding   client requests that the controller serves         topic_config a topic's effective settings
    cleaner      compacts logs between requests                     fetch_sessions  incremental fetches (KIP-227)
    quotas       rates by client id, how long to wait               memory       bytes of requests that are arriving
    wakes        who reads a partition and is told of news          replica_session  a follower's side of KIP-227
    broker_settings, settings_page   every setting of Kafka, and docs/reference/settings.md from it
    produce_checks  what a topic's settings ask of a batch          groups, transactions, coordinators  see coordinator/

Nobody imports this package but its own tests: a broker is started as a process.
"""
