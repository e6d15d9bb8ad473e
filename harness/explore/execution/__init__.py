"""One trial as it runs: the client under test, its cluster, and what is done to both meanwhile.

- `bench`: the cluster, and a topic and a client id for each trial; begin here
- `benches`: the cluster that all trials share, and the one on which brokers die
- `subject`: carries out a program with the client; `member` is one process of it
- `warm_clients`: processes that serve one trial after the other, because they start slowly
- `copying`: what a copier has read and not copied yet, and what its transaction has
- `own_subject`: the same for a program of somebody's that speaks no protocol of ours
- `patience`: how long a client makes no progress although its host lets it run
- `idleness`: whether a client uses a processor while it has nothing to do
- `host_share`: how much of the host's processors is used, by whomever
- `toxics`: a disturbance as the toxic of a proxy
- `cluster_changes`: what the cluster does beside the program
- `other_writers`: records that somebody else writes meanwhile
- `log_records`: what the trial's log holds at the end
- `traffic_log`: the log of the requests, within a bound
"""
