"""The partitions of this broker: logs and replication cores, recovery and cleaning, fetching in both directions.

replicas        the parts, connected           partitions  which are here, the door of their storage
cores           the door to replication cores  roles       what an image makes of them
appends         as leaders                     following   as followers
log_starts      DeleteRecords, retention       upkeep      what the clock brings: deadlines, flushes, checkpoints
image_feed      new images, in steps           isr         ISR proposals to the controller
log_recovery    before the broker joins        cleaner     compaction between requests
fetcher, replica_session    a follower's fetches
fetch_sessions, wakes       what those who fetch from us have been told, who waits
produce_checks              what a topic's settings ask of a batch
"""
