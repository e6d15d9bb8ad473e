"""The metadata quorum: who leads `__cluster_metadata`, and which of its entries are committed. Pure; the node hosts it.

    quorum = Quorum(config=QuorumConfig(node_id=1, voters=(1, 2, 3)),
                    persisted=decode_quorum_state(text_or_none), entries=entries_from_disk, rng=random.Random(seed))
    actions = quorum.handle(Start(), now_ms)          # then: RequestReceived, ResponseReceived, SendFailed, Propose,
                                                      #       Shutdown, and Tick when next_deadline_ms() has come

The host performs the actions in order. **Each is complete before the next one begins**: PersistQuorumState,
AppendEntries and TruncateEntries are on disk before the Send or Reply that follows them.

    Send(peer_id, correlation_id, request)  -> later ResponseReceived(sender_id, correlation_id, response) | SendFailed
    Reply(token, response)                  answers RequestReceived(token, ..); a Fetch may be answered much later
    PersistQuorumState(state)               write `quorum-state`: encode_quorum_state(state, ..)
    AppendEntries(entries)                  append to the log of __cluster_metadata-0: encode_entries(entries)
    TruncateEntries(end_offset)             cut the log there
    WriteSnapshot(snapshot)                 write the file of a snapshot, on disk before the next action
    DropPrefix(start_offset)                remove the entries below from the log
    InstallSnapshot(snapshot)               write it, begin an empty log after it; controller: MetadataSnapshot
    Committed(high_watermark, entries)      hand to controller.handle(MetadataCommitted(entries))
    BecameLeader(epoch) / LostLeadership(epoch)   hand to controller.handle(LeadershipGained / LeadershipLost)
    LeaderChanged(leader_id, epoch)         route controller requests there; journal `controller_elected`

One entry is one record batch, on the wire and on disk. Each of its values is a record with an offset of its own:
`broker.quorum.entries`. An entry is replicated and committed as a whole. `broker.quorum.messages` translates messages
to and from kio types. A proposal is `Propose(epoch, values)`. Its commit comes back as a Committed entry with that
epoch and these values. After a restart every entry above the snapshot is reported as Committed again. Each node takes
its own snapshots (`SnapshotTaken`). If a leader has dropped the entry that a follower needs next, the follower gets the
leader's snapshot by FetchSnapshot (KIP-630). Not implemented: observers (every node is a voter), and changes of the
voter set.
"""
