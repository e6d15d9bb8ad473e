"""The controller: the cluster's metadata and the decisions about it. Pure; every node hosts one beside its quorum.

    controller = Controller(config=ControllerConfig(node_id=1), rng=random.Random(seed))
    actions = controller.handle(event, now_ms)

Events: LeadershipGained, LeadershipLost, MetadataCommitted (from the quorum's actions BecameLeader, LostLeadership,
Committed), Tick when next_deadline_ms() has come, and the requests RegisterBroker, BrokerHeartbeat, CreateTopics,
DeleteTopics, AlterPartition, AllocateProducerIds, AlterConfigs, each with a token. A node that is not active answers
NOT_CONTROLLER (41); the node process forwards client requests to quorum.leader_id itself.

Actions, performed in order:
    WriteMetadata(epoch, values)      quorum.handle(Propose(epoch=epoch, values=values), now_ms)
    Respond(token, response)          comes after the commit of what the request wrote
    ImagePublished(old, new)          on every node for every commit; diff(old, new, broker_id=me) says what to lead,
                                      follow and remove; answers Metadata, DescribeCluster, DescribeConfigs from `new`
    ControllerActivated / ControllerDeactivated(epoch)   journal

What a broker does:

1. It sends BrokerRegistration, with a new incarnation id for each start of the process, until the error is 0. It keeps
   the broker_epoch of the answer.
2. It then sends BrokerHeartbeat every broker.heartbeat.interval.ms, with current_metadata_offset = image.offset. It is
   unfenced once this offset is >= broker_epoch.
3. On STALE_BROKER_EPOCH (77) it registers again. On BROKER_ID_NOT_REGISTERED (102) it was unregistered, and it stays so
   until the next start.
4. To stop cleanly it sends want_shut_down=True until the answer says should_shut_down.

Names are imported from broker.controller.core, .types and the other *_types, .records, .image, .delta.
"""
