"""The partitions of this broker: logs and replication cores, recovery and cleaning, fetching in both directions.

replicas         connects the parts
partitions       which partitions are here, and errors of their storage
cores            access to the replication cores
hosted           one partition on this broker: its log, core and readers
roles            applies a metadata image to the partitions
appends          appends of leaders
following        appends and truncations of followers
log_starts       DeleteRecords and retention
upkeep           work that depends on time: deadlines, flushes, checkpoints
image_feed       gives new images to the partitions, in steps
isr              ISR proposals to the controller
log_recovery     opens logs before the broker joins, and removes deleted ones
cleaner          compaction between requests
fetcher, replica_session    the fetches of a follower
fetch_sessions, wakes       what readers of this broker have been told, and which of them wait
produce_checks              checks of a batch that depend on the topic's settings
"""
