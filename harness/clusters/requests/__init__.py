"""What the harness asks of brokers that run, by Kafka's protocol.

- `probe`: who leads what, and who is in sync; `observer` looks again and again
- `admin`: the questions and commands of an administrator
- `topic_changes`, `features`, `log_directories`: what a fault changes by them
- `settings_check`: whether settings are in effect
- `own_topics`, `own_groups`: what is ours on a cluster that outlives us
- `log_reader`: the log of a topic, by plain fetches
"""
