"""Share groups (KIP-932): members take records of a partition in turns, and acknowledge each record.

    feature        the row of the feature: its APIs and rules, and what it opens
    handlers/      answers to its requests
    rules          who may ask
    part           what it has opened on this node
    group_kind     share groups as a kind of group for the group coordinator
    shares         the share partitions that this broker leads, and the sessions of their members
    live_share     one of them: loading, writes, locks that end
    persister      requests to the share coordinators
    coordinator    the share coordinator of this broker, over `__share_group_state`
    group_settings the settings of one group

These three are pure cores, without socket, clock or log:

    groups/        members and assignments, as the group coordinator keeps them
    states/        which records of a partition each group has processed, as the share coordinator keeps it
    delivery/      which records are acquired, by which member, and until when

Their settings, the level `share.version` and the names in the protocol are in the kernel, with all others.
"""
