"""Clusters as the harness sees them: engines behind one protocol.

Modules of all engines, and the engines themselves:

- `cluster`, `capabilities`: the protocol of a running cluster, and what only some clusters can do
- `cluster_port`: which class is which port of chaos
- `base`: names, addresses, links and states, as values; `cluster_id`, `ports`, `storage` are what a layout needs
- `factory`: from a plan to a cluster
- `process_cluster`, `layout_reference`: brokers that are processes of this host, and the reference broker's layout
- `broker_process`, `launcher`, `node_files`, `segment_files`: a broker's process and its files
- `external`, `broker_hosts`: clusters of somebody else, without and with workers on the brokers' hosts
- `security`: a client's properties file, as connections to such a cluster need it
- `proxies`: the proxies before brokers, of every engine

Rooms:

- `requests`: what the harness asks of brokers that run
- `secured`: clusters of ours with TLS, SASL and ACLs
- `hosts`: what workers on brokers' hosts do and say
- `kafka`, `docker`: Apache Kafka from Maven jars, and clusters in containers
"""
